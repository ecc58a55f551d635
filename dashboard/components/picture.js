// An SVG shown as a picture, to be copied or downloaded as PNG or SVG.

const urlOf = (blob) => URL.createObjectURL(blob);

function save(blob, name) {
  const link = document.createElement("a");
  link.href = urlOf(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

async function rasterised(svg, width, height) {
  const image = new Image();
  image.src = urlOf(svg);
  await image.decode();
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width, height });
  canvas.getContext("2d").drawImage(image, 0, 0, width, height);
  URL.revokeObjectURL(image.src);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

export default function ({ parentElement, data }) {
  const svg = new Blob([data.svg], { type: "image/svg+xml" });
  const png = () => rasterised(svg, data.width, data.height);
  const picture = parentElement.querySelector("img");
  picture.src = urlOf(svg);
  picture.alt = data.label;
  const status = parentElement.querySelector("[role=status]");
  const acts = {
    copy: async () => {
      await navigator.clipboard.write([new ClipboardItem({ "image/png": png() })]);
      status.textContent = "Copied";
    },
    png: async () => save(await png(), `${data.file}.png`),
    svg: async () => save(svg, `${data.file}.svg`),
  };
  for (const [name, act] of Object.entries(acts)) {
    parentElement.querySelector(`[data-act=${name}]`).onclick = () => {
      status.textContent = "";
      act().catch((error) => (status.textContent = `This did not work: ${error.message}`));
    };
  }
  // Browsers give pages without encryption, but for those of this machine, no clipboard for pictures.
  parentElement.querySelector("[data-act=copy]").hidden = !(navigator.clipboard?.write && window.ClipboardItem);
  return () => URL.revokeObjectURL(picture.src);
}
