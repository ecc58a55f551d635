// Hover texts on a narrow screen: plotly draws a line as long as it is, and cuts what lies outside of the chart.

const NARROW_CHART_PX = 520, CHARACTER_PX = 7.5, LABEL_PADDING_PX = 40;

// A text with the entities and tags of a hover label, in lines of a number of characters at most where words allow.
export function wrapLines(text, maxLength) {
  const lengthOf = (part) => part.replace(/<[^>]*>/g, "").replace(/&[^;\s]+;/g, "_").length;
  return text
    .split("<br>")
    .flatMap((line) => {
      const lines = [];
      for (const word of line.split(" ")) {
        const longer = lines.length ? `${lines.at(-1)} ${word}` : word;
        if (lines.length && lengthOf(longer) <= maxLength) lines[lines.length - 1] = longer;
        else lines.push(word);
      }
      return lines;
    })
    .join("<br>");
}

// The traces with hover texts that fit a chart of a width; those of a wide chart as they are.
export function fitHoverTexts(traces, width) {
  if (width >= NARROW_CHART_PX) return traces;
  const maxLength = Math.floor((width - LABEL_PADDING_PX) / CHARACTER_PX);
  const wrap = (text) => (typeof text === "string" ? wrapLines(text, maxLength) : text);
  return traces.map((trace) => {
    const { hovertext } = trace;
    return hovertext === undefined ? trace : { ...trace, hovertext: Array.isArray(hovertext) ? hovertext.map(wrap) : wrap(hovertext) };
  });
}
