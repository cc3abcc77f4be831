// Menus and words that choose among the cards of the gallery; without scripts all cards are shown.
(function () {
  const bar = document.getElementById("gallery");
  if (!bar) return;
  const cards = Array.from(document.querySelectorAll(".card"));
  const menus = {};
  const words = document.createElement("input");
  words.type = "search";
  words.placeholder = words.ariaLabel = "search programs and answers";
  const own = (card, name) => card.dataset[name].split("|");
  const count = document.createElement("output");
  const show = () => {
    const wanted = words.value.toLowerCase();
    for (const card of cards)
      card.hidden = !(
        card.textContent.toLowerCase().includes(wanted) &&
        Object.entries(menus).every(
          ([name, menu]) => menu.value === "all" || own(card, name).includes(menu.value)
        )
      );
    count.textContent = `${cards.filter((card) => !card.hidden).length} of ${cards.length} shown`;
  };
  words.addEventListener("input", show);
  bar.append(words);
  for (const name of ["step", "kind", "member", "verdict"]) {
    const found = Array.from(new Set(cards.flatMap((card) => own(card, name))));
    if (found.length < 2) continue;
    const label = document.createElement("label");
    const menu = document.createElement("select");
    for (const value of ["all", ...found]) {
      const option = document.createElement("option");
      option.value = option.textContent = value;
      menu.append(option);
    }
    menu.addEventListener("change", show);
    label.append(name + " ", menu);
    bar.append(label);
    menus[name] = menu;
  }
  bar.append(count);
  if (menus.step) menus.step.value = own(cards[cards.length - 1], "step")[0];
  show();
})();
