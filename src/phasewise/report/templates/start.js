// each chart is drawn over its own still picture, which stays where anything fails
for (const spec of document.querySelectorAll("figure > script.spec")) {
  const chart = spec.parentElement.querySelector(".chart");
  const picture = chart.querySelector("img");
  const live = document.createElement("div");
  live.setAttribute("role", "img");
  live.setAttribute("aria-label", picture.alt);
  vegaEmbed(live, JSON.parse(spec.textContent), { actions: false, renderer: "svg", mode: "vega-lite" })
    .then(() => chart.replaceChild(live, picture))
    .catch(() => live.remove());
}

// a table is sorted by the column whose title is pressed: falling first, then rising
const keyOf = (row, index) => {
  const cell = row.cells[index];
  const number = parseFloat(cell.dataset.value ?? cell.textContent);
  return Number.isNaN(number) ? cell.textContent : number;
};
const compare = (one, other) => {
  if (typeof one !== typeof other) return typeof one === "number" ? -1 : 1;
  return typeof one === "number" ? other - one : one.localeCompare(other);
};
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  for (const title of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.textContent = title.textContent;
    title.replaceChildren(button);
    button.addEventListener("click", () => {
      const falls = title.getAttribute("aria-sort") !== "descending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      title.setAttribute("aria-sort", falls ? "descending" : "ascending");
      const rows = [...body.rows].sort((one, other) => compare(keyOf(one, title.cellIndex), keyOf(other, title.cellIndex)));
      body.replaceChildren(...(falls ? rows : rows.reverse()));
    });
  }
}

// of a table of many columns two are seen, the first and the last until others are chosen
for (const table of document.querySelectorAll("table.paired")) {
  const titles = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  if (titles.length < 4) continue;
  const choices = [1, titles.length - 1].map((chosen, index) => {
    const choice = document.createElement("select");
    choice.setAttribute("aria-label", index ? "compare with" : "compare");
    for (let column = 1; column < titles.length; column++) choice.add(new Option(titles[column], column));
    choice.value = chosen;
    return choice;
  });
  const show = () => {
    const seen = choices.map((choice) => Number(choice.value));
    for (const row of table.rows)
      for (const cell of row.cells) cell.hidden = cell.cellIndex > 0 && !seen.includes(cell.cellIndex);
  };
  for (const choice of choices) choice.addEventListener("change", show);
  const line = document.createElement("p");
  line.className = "choice";
  line.append("Compare ", choices[0], " with ", choices[1]);
  table.before(line);
  show();
}
