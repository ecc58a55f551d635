// A button that copies a text.

function copyByHand(text) {
  // Browsers have no clipboard for pages without encryption, except those of this machine.
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  if (!isCopied) throw new Error("select the text and copy it");
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
