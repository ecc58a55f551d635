// A wall of small matrices, one button each, drawn from one string of bytes.

const NOTHING = 255;

const bytes = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

function thumbnail(size, values, colours) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = size;
  const brush = canvas.getContext("2d");
  const image = brush.createImageData(size, size);
  values.forEach((value, cell) => {
    if (value !== NOTHING) image.data.set([...colours.subarray(3 * value, 3 * value + 3), 255], 4 * cell);
  });
  brush.putImageData(image, 0, 0);
  return canvas;
}

export default function ({ parentElement, data, setTriggerValue }) {
  const wall = parentElement.querySelector(".frontier-wall");
  if (wall.dataset.version === data.version) return;
  wall.dataset.version = data.version;
  wall.setAttribute("aria-label", data.label);
  const values = bytes(data.values);
  const colours = bytes(data.colours);
  const cells = data.size * data.size;
  wall.replaceChildren(
    ...data.titles.map((title, position) => {
      const button = document.createElement("button");
      button.type = "button";
      button.title = title;
      button.setAttribute("aria-label", title);
      const note = document.createElement("span");
      note.textContent = data.notes[position];
      const own = values.subarray(cells * position, cells * (position + 1));
      button.append(thumbnail(data.size, own, colours), note);
      button.onclick = () => setTriggerValue("clicked", position);
      return button;
    }),
  );
}
