// The search box completes qualifiers and their values, from data.
"use strict";

(() => {
  const box = document.querySelector("input[data-complete]");
  if (!box) return;
  const list = document.createElement("ul");
  list.className = "options";
  list.id = "options";
  list.role = "listbox";
  list.hidden = true;
  box.after(list);
  box.setAttribute("role", "combobox");
  box.setAttribute("aria-controls", "options");
  box.setAttribute("aria-expanded", "false");
  let chosen = -1;
  let asked = 0;

  const word = () => {
    const before = box.value.slice(0, box.selectionStart);
    return before.slice(before.lastIndexOf(" ") + 1);
  };
  const close = () => { list.hidden = true; chosen = -1; box.setAttribute("aria-expanded", "false"); };
  const take = (value) => {
    const at = box.selectionStart;
    const begin = at - word().length;
    const quoted = /\s/.test(value) ? value.replace(/^(\w+:)(.*)$/s, (_, key, rest) => key + '"' + rest.replace(/["\\]/g, "\\$&") + '"') : value;
    box.value = box.value.slice(0, begin) + quoted + (quoted.endsWith(":") ? "" : " ") + box.value.slice(at);
    box.selectionStart = box.selectionEnd = begin + quoted.length + (quoted.endsWith(":") ? 0 : 1);
    box.focus();
    quoted.endsWith(":") ? suggest() : close();
  };
  const show = (values) => {
    list.replaceChildren(...values.map((value) => {
      const item = document.createElement("li");
      item.role = "option";
      item.textContent = value;
      item.addEventListener("mousedown", (event) => { event.preventDefault(); take(value); });
      return item;
    }));
    chosen = -1;
    list.hidden = !values.length;
    box.setAttribute("aria-expanded", String(!list.hidden));
  };
  const suggest = async () => {
    const [key, rest] = word().includes(":") ? word().split(/:(.*)/s) : ["", word()];
    const mine = ++asked;
    const address = box.dataset.complete + "?" + new URLSearchParams({ key, prefix: rest.replace(/^"/, "") });
    try {
      const values = await (await fetch(address, { headers: { "HX-Request": "true" } })).json();
      if (mine === asked && document.activeElement === box) show(values.slice(0, 10));
    } catch { close(); }
  };
  let soon;
  box.addEventListener("input", () => { clearTimeout(soon); soon = setTimeout(suggest, 120); });
  box.addEventListener("focus", suggest);
  box.addEventListener("blur", close);
  box.addEventListener("keydown", (event) => {
    const items = [...list.children];
    if (list.hidden || !items.length) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      chosen = (chosen + (event.key === "ArrowDown" ? 1 : items.length)) % items.length;
      items.forEach((item, at) => item.setAttribute("aria-selected", String(at === chosen)));
    } else if ((event.key === "Enter" || event.key === "Tab") && chosen >= 0) {
      event.preventDefault();
      take(items[chosen].textContent);
    } else if (event.key === "Escape") close();
  });
})();
