"use strict";
// Everything can be read without this: it adds the filter of findings and keys.
(() => {
  const $ = (id) => document.getElementById(id);
  const items = [...document.querySelectorAll("ol.findings > li")];
  const texts = items.map((item) => item.textContent.toLowerCase());
  const search = $("search"), shown = $("shown"), help = $("help"), keys = $("keys");
  const boxes = [...document.querySelectorAll("input[data-severity]")];
  for (const element of document.querySelectorAll("[data-needs-script]")) element.hidden = false;

  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const severities = new Set(boxes.filter((box) => box.checked).map((box) => box.dataset.severity));
    let count = 0;
    items.forEach((item, index) => {
      const fits = severities.has(item.dataset.severity) && words.every((word) => texts[index].includes(word));
      item.hidden = !fits;
      count += fits;
    });
    shown.textContent = `${count} of ${items.length} shown`;
  };
  const visible = () => items.filter((item) => !item.hidden).map((item) => item.querySelector("summary"));
  const move = (step) => {
    const all = visible();
    if (!all.length) return;
    const inside = document.activeElement.closest("ol.findings > li");
    const at = inside ? all.indexOf(inside.querySelector("summary")) : step > 0 ? -1 : all.length;
    all[Math.min(Math.max(at + step, 0), all.length - 1)].focus();
  };
  const openAll = (open) => visible().forEach((summary) => { summary.parentElement.open = open; });

  if (search) {
    search.addEventListener("input", filter);
    boxes.forEach((box) => box.addEventListener("change", filter));
    $("expand").addEventListener("click", () => openAll(true));
    $("collapse").addEventListener("click", () => openAll(false));
    filter();
  }
  $("show-help").addEventListener("click", () => help.showModal());
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || help.open) return;
    if (event.target === search) {
      if (event.key === "Escape") { search.value = ""; filter(); search.blur(); move(1); event.preventDefault(); }
      return;
    }
    if (!keys.checked || event.target.matches("input:not([type=checkbox], [type=radio]), select, textarea")) return;
    const actions = {
      j: () => move(1), k: () => move(-1),
      "/": () => search && search.focus(),
      "?": () => help.showModal(),
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  });

  // Bars of the timeline: one stop for Tab, then arrows.
  for (const drawing of document.querySelectorAll(".timeline svg")) {
    const bars = [...drawing.querySelectorAll("a.bar")];
    if (!bars.length) continue;
    bars[0].setAttribute("tabindex", "0");
    drawing.addEventListener("keydown", (event) => {
      const at = bars.indexOf(event.target.closest("a.bar"));
      const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: bars.length - 1 }[event.key];
      if (at < 0 || to === undefined) return;
      event.preventDefault();
      const next = bars[Math.min(Math.max(to, 0), bars.length - 1)];
      bars[at].setAttribute("tabindex", "-1");
      next.setAttribute("tabindex", "0");
      next.focus();
    });
    drawing.addEventListener("focusin", (event) => {
      const bar = event.target.closest("a.bar");
      if (bar) $("told").textContent = bar.getAttribute("aria-label");
    });
  }
})();
