// An SVG drawn as a picture, to copy or to download as PNG or SVG.

const objectUrl = (blob) => URL.createObjectURL(blob);

// The URL is revoked later, as some browsers begin the download after the click.
function save(blob, name) {
  const link = document.createElement("a");
  link.href = objectUrl(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

async function rasterise(svg, width, height) {
  const image = new Image();
  image.src = objectUrl(svg);
  await image.decode();
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width, height });
  canvas.getContext("2d").drawImage(image, 0, 0, width, height);
  URL.revokeObjectURL(image.src);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

export default function ({ parentElement, data }) {
  const svg = new Blob([data.svg], { type: "image/svg+xml" });
  const png = () => rasterise(svg, data.width, data.height);
  const picture = parentElement.querySelector("img");
  picture.src = objectUrl(svg);
  picture.alt = data.label;
  const status = parentElement.querySelector("[role=status]");
  const actions = {
    copy: async () => {
      await navigator.clipboard.write([new ClipboardItem({ "image/png": png() })]);
      status.textContent = "Copied";
    },
    png: async () => save(await png(), `${data.file}.png`),
    svg: async () => save(svg, `${data.file}.svg`),
  };
  for (const [name, act] of Object.entries(actions)) {
    parentElement.querySelector(`[data-act=${name}]`).onclick = () => {
      status.textContent = "";
      act().catch((error) => (status.textContent = `This did not work: ${error.message}`));
    };
  }
  // Browsers have no clipboard for pictures on pages without encryption, except those of this machine.
  parentElement.querySelector("[data-act=copy]").hidden = !(navigator.clipboard?.write && window.ClipboardItem);
  return () => URL.revokeObjectURL(picture.src);
}
