// A button that copies a text.

function copyByHand(text) {
  // Browsers give pages without encryption, but for those of this machine, no clipboard.
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (!done) throw new Error("select the text and copy it");
}

export default function ({ parentElement, data }) {
  const button = parentElement.querySelector("button");
  const status = parentElement.querySelector("[role=status]");
  button.textContent = data.label;
  status.textContent = "";
  button.onclick = async () => {
    try {
      if (navigator.clipboard) await navigator.clipboard.writeText(data.text);
      else copyByHand(data.text);
      status.textContent = "Copied";
    } catch (error) {
      status.textContent = `This did not work: ${error.message}`;
    }
  };
}
