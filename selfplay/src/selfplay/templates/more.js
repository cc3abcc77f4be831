// The selector of the gallery. Without scripts all cards are shown.
(function () {
  const bar = document.getElementById("gallery-bar");
  if (!bar) return;
  const cards = Array.from(document.querySelectorAll("#cards .card"));
  const none = document.getElementById("gallery-none");
  const chosen = {};
  const buttons = {};

  // A card has one run, step, kind and verdict, and the members that it is about.
  function own(card, name) {
    return name === "member" ? card.dataset.member.split(" ") : [card.dataset[name]];
  }

  function values(name) {
    const found = Array.from(new Set(cards.flatMap((card) => own(card, name))));
    return name === "member" ? found.sort() : found;
  }

  function press(name, value) {
    chosen[name] = value;
    for (const [other, button] of buttons[name] || []) {
      button.setAttribute("aria-pressed", String(other === value));
    }
  }

  function lastStep(run) {
    const mine = cards.filter((card) => run === null || card.dataset.run === run);
    return String(Math.max(...mine.map((card) => Number(card.dataset.step))));
  }

  function show() {
    let shown = 0;
    for (const card of cards) {
      const fits = Object.keys(chosen).every(
        (name) => chosen[name] === null || own(card, name).includes(chosen[name])
      );
      card.hidden = !fits;
      if (fits) shown += 1;
    }
    none.hidden = shown > 0;
  }

  function choice(name, initial) {
    const found = values(name);
    if (found.length < 2) {
      chosen[name] = null;
      return;
    }
    buttons[name] = [];
    const group = document.createElement("fieldset");
    const legend = document.createElement("legend");
    legend.textContent = name;
    group.append(legend);
    for (const value of [...found, null]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = value === null ? "all" : value;
      button.addEventListener("click", () => {
        press(name, value);
        if (name === "run" && chosen.step !== null) press("step", lastStep(value));
        show();
      });
      buttons[name].push([value, button]);
      group.append(button);
    }
    bar.append(group);
    press(name, initial);
  }

  choice("run", values("run")[0]);
  choice("step", lastStep(values("run")[0]));
  choice("kind", null);
  choice("member", null);
  choice("verdict", null);
  bar.hidden = false;
  show();
})();

// What a click in a picture leads to, the Tab and Enter keys do too.
new MutationObserver(() => {
  for (const mark of document.querySelectorAll("svg path:not([tabindex])")) {
    if (!mark.__data__?.href) continue;
    mark.setAttribute("tabindex", "0");
    mark.setAttribute("role", "link");
    mark.addEventListener("keydown", (event) => {
      if (event.key === "Enter") mark.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    });
  }
}).observe(document.body, { childList: true, subtree: true });
