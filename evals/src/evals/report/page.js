for (const section of document.querySelectorAll(".benchmark")) {
  const questions = [...section.querySelectorAll(".question")];
  const filter = section.querySelector(".filter"), find = section.querySelector(".find");
  const count = section.querySelector(".count");
  const show = () => {
    const words = find.value.toLowerCase();
    let shown = 0;
    for (const q of questions) {
      const verdicts = q.dataset.verdicts.replace("not judged", "not-judged").split(" ");
      const fits = !filter.value || verdicts.includes(filter.value.replace(" ", "-"));
      q.hidden = !(fits && (!words || q.textContent.toLowerCase().includes(words)));
      shown += !q.hidden;
    }
    count.textContent = `${shown} of ${questions.length} questions`;
  };
  filter.addEventListener("change", show);
  find.addEventListener("input", show);
  show();
}
