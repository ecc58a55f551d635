// A wall of small matrices, a button each, drawn from one string of bytes.

const EMPTY_CELL = 255;

const decodeBytes = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

function drawThumbnail(size, values, colours) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = size;
  const brush = canvas.getContext("2d");
  const image = brush.createImageData(size, size);
  values.forEach((value, cell) => {
    if (value !== EMPTY_CELL) image.data.set([...colours.subarray(3 * value, 3 * value + 3), 255], 4 * cell);
  });
  brush.putImageData(image, 0, 0);
  return canvas;
}

export default function ({ parentElement, data, setTriggerValue }) {
  const wall = parentElement.querySelector(".frontier-wall");
  // A run of the page with the same matrices must not take the focus from a button.
  if (wall.dataset.version === data.version) return;
  wall.dataset.version = data.version;
  wall.setAttribute("aria-label", data.label);
  const values = decodeBytes(data.values);
  const colours = decodeBytes(data.colours);
  const cells = data.size * data.size;
  wall.replaceChildren(
    ...data.titles.map((title, position) => {
      const button = document.createElement("button");
      button.type = "button";
      button.title = title;
      button.setAttribute("aria-label", title);
      const note = document.createElement("span");
      note.textContent = data.notes[position];
      const matrix = values.subarray(cells * position, cells * (position + 1));
      button.append(drawThumbnail(data.size, matrix, colours), note);
      button.onclick = () => setTriggerValue("clicked", position);
      return button;
    }),
  );
}
