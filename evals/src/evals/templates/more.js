// The filter of the samples of each benchmark.
for (const section of document.querySelectorAll(".benchmark")) {
  const questions = [...section.querySelectorAll(".question")];
  const [filter, find, count] = [".filter", ".find", ".count"].map((name) => section.querySelector(name));
  const show = () => {
    const words = find.value.toLowerCase();
    let shown = 0;
    for (const q of questions) {
      const fits = !filter.value || q.dataset.verdicts.split(" ").includes(filter.value);
      q.hidden = !(fits && (!words || q.textContent.toLowerCase().includes(words)));
      shown += !q.hidden;
    }
    count.textContent = `${shown} of ${questions.length} questions`;
  };
  filter.addEventListener("change", show);
  find.addEventListener("input", show);
  show();
}
