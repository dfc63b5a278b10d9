// The inbox by keyboard. A list that a person works in does not move: it refreshes itself only while nothing is selected, opened or typed.
"use strict";

(() => {
  const inbox = () => document.getElementById("inbox");
  const cards = () => [...document.querySelectorAll("[data-approval]")];
  const help = document.getElementById("help");
  const current = () => (document.activeElement ? document.activeElement.closest("[data-approval]") : null);

  // --- selecting
  const chosen = () => document.querySelectorAll("[data-approval] input[name=id]:checked");
  const count = () => {
    const form = document.getElementById("batch");
    if (!form) return;
    const many = chosen().length;
    form.hidden = many === 0;
    form.querySelector("[data-selected]").textContent = many + " selected";
  };
  document.addEventListener("change", count);

  // --- refreshing
  const busy = () => {
    const list = inbox();
    if (!list || chosen().length || list.querySelector("details[open]")) return true;
    if (list.contains(document.activeElement) && document.activeElement.matches("input, textarea, select, button")) return true;
    return [...list.querySelectorAll("input:not([type=hidden]):not([type=checkbox]), textarea, select")]
      .some((field) => field.hasAttribute("style") || ("defaultValue" in field ? field.value !== field.defaultValue : field.selectedIndex > 0));
  };
  document.addEventListener("holdfast:tick", () => { if (!busy()) htmx.trigger(inbox(), "refresh"); });
  document.addEventListener("htmx:after:swap", count);

  // --- keys
  const move = (by) => {
    const all = cards();
    const at = all.indexOf(current());
    const to = all[at < 0 ? 0 : Math.min(all.length - 1, Math.max(0, at + by))];
    if (to) { to.focus({ preventScroll: true }); to.scrollIntoView({ block: "nearest" }); }
  };
  const approve = (card) => {
    const first = card.querySelector(".fields select, .fields input, .fields textarea");
    const button = card.querySelector("[data-approve]");
    if (first) first.focus();
    else if (button && document.activeElement === button) button.click();
    else if (button) button.focus();
  };
  const actions = {
    a: approve,
    e: (card) => {
      const edit = card.querySelector("[data-edit]");
      if (edit) { edit.open = true; edit.querySelector("textarea").focus(); }
    },
    r: (card) => { const reason = card.querySelector("[data-reason]"); if (reason) reason.focus(); },
    x: (card) => { const box = card.querySelector("input[name=id]"); if (box) { box.checked = !box.checked; count(); } },
    Enter: (card, event) => {
      if (event.target !== card || !card.dataset.page) return false;
      location.assign(card.dataset.page);
    },
  };
  const steps = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || (help && help.open)) return;
    const card = current();
    if (event.key === "Escape" && card) { card.focus(); return; }
    if (event.key === "Enter" && card && event.target.matches("[data-reason]")) {
      const next = card.querySelector("[data-reject]") || card.querySelector("[data-approve]");
      if (next && event.target.value.trim()) { event.preventDefault(); next.focus(); }
      return;
    }
    if (event.target.matches("input:not([type=checkbox]), textarea, select")) return;
    if (event.key === "?" && help) { event.preventDefault(); help.showModal(); return; }
    if (event.key in steps && cards().length > 1) { event.preventDefault(); move(steps[event.key]); return; }
    const action = actions[event.key];
    const on = card || (event.key === "Enter" ? null : cards()[0]);
    if (action && on && action(on, event) !== false) event.preventDefault();
  });
  for (const button of document.querySelectorAll("[data-help]")) {
    button.hidden = false;
    button.addEventListener("click", () => help.showModal());
  }
  count();
})();
