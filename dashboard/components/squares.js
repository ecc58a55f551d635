// A wall of squares in named groups: a button each, with its sign, its value and the colour of its kind.

function makeSquare(square, report) {
  const button = document.createElement("button");
  button.type = "button";
  button.title = square.title;
  button.setAttribute("aria-label", square.title);
  button.dataset.value = square.value;
  button.classList.toggle("outlined", square.outlined);
  button.classList.toggle("round", square.is_round);
  button.style.setProperty("--fill", `var(--st-${square.colour}-background-color)`);
  button.style.setProperty("--ink", `var(--st-${square.colour}-text-color)`);
  const sign = document.createElement("b");
  sign.textContent = square.sign;
  const value = document.createElement("span");
  value.textContent = square.value;
  button.append(sign, value);
  button.onclick = () => report(square.value);
  return button;
}

export default function ({ parentElement, data, setTriggerValue }) {
  const wall = parentElement.querySelector(".frontier-squares");
  wall.setAttribute("aria-label", data.label);
  // A run of the page with the same squares must not take the focus from a button.
  if (wall.dataset.version !== data.version) {
    wall.dataset.version = data.version;
    wall.replaceChildren(
      ...data.groups.map(({ title, squares }) => {
        const group = document.createElement("section");
        const name = document.createElement("p");
        name.textContent = title;
        const row = document.createElement("div");
        row.append(...squares.map((square) => makeSquare(square, (value) => setTriggerValue("clicked", value))));
        group.append(name, row);
        return group;
      }),
    );
  }
  for (const button of wall.querySelectorAll("button")) button.setAttribute("aria-pressed", button.dataset.value === data.chosen);
}
