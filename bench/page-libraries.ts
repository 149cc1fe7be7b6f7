/**
 * Compares libraries of the status page with one alternative each, in Debian's Chromium. preact
 * with htm and lit-html draw the same rows, uPlot and Chart.js the same lines, A B A B. It prints
 * bytes as shipped and with gzip. Medians of milliseconds are printed for the first drawing and for
 * a further one.
 * Usage: npm run bench:page-libraries -- [--rounds 5]
 */
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { gzipSync } from 'node:zlib'
import { requireFrom } from '../test/kit/own-packages.ts'
import { openBrowser } from '../test/outside/page/browser.ts'

const { values } = parseArgs({ options: { rounds: { type: 'string', default: '5' } } })
const rounds = Number(values.rounds)
requireFrom(new URL('./', import.meta.url))

const OURS = 'node_modules'
const OTHERS = 'bench/node_modules'
/** Files by the name of their import; the first three are those of the status page. */
const LIBRARIES = {
  preact: join(OURS, 'preact/dist/preact.mjs'),
  htm: join(OURS, 'htm/dist/htm.mjs'),
  uplot: join(OURS, 'uplot/dist/uPlot.esm.js'),
  'lit-html': join(OTHERS, 'lit-html/lit-html.js'),
  'lit-html/directives/repeat.js': join(OTHERS, 'lit-html/directives/repeat.js'),
  'chart.js': join(OTHERS, 'chart.js/dist/chart.js'),
  '@kurkle/color': join(OTHERS, '@kurkle/color/dist/color.esm.js'),
} as const
const CHUNKS = join(OTHERS, 'chart.js/dist/chunks/index.js')

/**
 * A page of 24 blocks with six cells each. Each drawing adds a cell, and every sixth one adds a
 * block.
 */
const ROWS = `
const state = (step) => Array.from({ length: 24 }, (_, row) => {
  const number = Math.floor(step / 6) + 24 - row
  const cells = row === 0 ? step % 6 + 1 : 6
  return { number, cells: Array.from({ length: cells }, (_, index) => ({ index, text: (number * 7 + index * 3) % 50 })) }
})
const measure = (draw) => {
  const first = performance.now()
  draw(state(0))
  const firstMs = performance.now() - first
  const times = []
  for (let step = 1; step <= 300; step++) {
    const rows = state(step)
    const began = performance.now()
    draw(rows)
    times.push(performance.now() - began)
  }
  return { firstMs, eachMs: times.reduce((a, b) => a + b) / times.length }
}`
const KINDS: Readonly<Record<string, { readonly files: readonly string[]; readonly run: string }>> =
  {
    'preact with htm': {
      files: [LIBRARIES.preact, LIBRARIES.htm],
      run: `const [{ h, render }, { default: htm }] = await Promise.all([import('preact'), import('htm')])
      const html = htm.bind(h)
      ${ROWS}
      return measure((rows) => render(html\`<ol>\${rows.map(({ number, cells }) => html\`<li key=\${number}><b>\${number}</b>
        \${cells.map(({ index, text }) => html\`<button key=\${index} class="cell" aria-label=\${'flashblock ' + index} style=\${{ left: index + '%' }}><span>\${text}</span></button>\`)}</li>\`)}</ol>\`, document.body))`,
    },
    'lit-html': {
      files: [
        LIBRARIES['lit-html'],
        LIBRARIES['lit-html/directives/repeat.js'],
        join(OTHERS, 'lit-html/directive.js'),
        join(OTHERS, 'lit-html/directive-helpers.js'),
      ],
      run: `const [{ html, render }, { repeat }] = await Promise.all([import('lit-html'), import('lit-html/directives/repeat.js')])
      ${ROWS}
      return measure((rows) => render(html\`<ol>\${repeat(rows, ({ number }) => number, ({ number, cells }) => html\`<li><b>\${number}</b>
        \${repeat(cells, ({ index }) => index, ({ index, text }) => html\`<button class="cell" aria-label=\${'flashblock ' + index} style=\${'left:' + index + '%'}><span>\${text}</span></button>\`)}</li>\`)}</ol>\`, document.body))`,
    },
    uPlot: {
      files: [LIBRARIES.uplot],
      run: `const { default: uPlot } = await import('uplot')
      ${lines()}
      let plot
      return measure(async (data) => {
        if (plot === undefined) plot = new uPlot({ width: 900, height: 140, legend: { show: false }, cursor: { show: false }, series: [{}, { stroke: 'teal' }, { stroke: 'blue' }] }, data, document.body)
        else plot.setData(data)
        await null
      })`,
    },
    'Chart.js': {
      files: [LIBRARIES['chart.js'], CHUNKS, LIBRARIES['@kurkle/color']],
      run: `const { Chart, LineController, LineElement, PointElement, LinearScale } = await import('chart.js')
      Chart.register(LineController, LineElement, PointElement, LinearScale)
      ${lines()}
      const canvas = document.createElement('canvas')
      canvas.width = 900
      canvas.height = 140
      document.body.append(canvas)
      let chart
      const sets = ([at, ...lines]) => lines.map((values, line) => ({ borderColor: ['teal', 'blue'][line], pointRadius: 0, data: at.map((x, n) => ({ x, y: values[n] })) }))
      return measure(async (data) => {
        if (chart === undefined) chart = new Chart(canvas, { type: 'line', data: { datasets: sets(data) }, options: { responsive: false, animation: false, parsing: false, normalized: true, scales: { x: { type: 'linear' } } } })
        else {
          chart.data.datasets = sets(data)
          chart.update('none')
        }
        await null
      })`,
    },
  }

/** Two lines of 300 points; each drawing shifts them by a second. */
function lines(): string {
  return `
const state = (step) => {
  const at = Array.from({ length: 300 }, (_, n) => 1_700_000_000 + step + n)
  return [at, at.map((x) => 50 + 20 * Math.sin(x / 9)), at.map((x) => 30 + 25 * Math.cos(x / 7))]
}
const measure = async (draw) => {
  const first = performance.now()
  await draw(state(0))
  const firstMs = performance.now() - first
  const times = []
  for (let step = 1; step <= 300; step++) {
    const data = state(step)
    const began = performance.now()
    await draw(data)
    times.push(performance.now() - began)
  }
  return { firstMs, eachMs: times.reduce((a, b) => a + b) / times.length }
}`
}

const imports = Object.fromEntries(
  Object.entries(LIBRARIES).map(([name, file]) => [name, `/${file}`] as const),
)
/** Libraries import further modules from their own folders. */
const isModule = (path: string): boolean => /^\/(bench\/)?node_modules\/[\w@./-]+\.m?js$/.test(path)
const server = createServer(({ url: path = '/' }, response) => {
  if (isModule(path))
    response.writeHead(200, { 'content-type': 'text/javascript' }).end(readFileSync(`.${path}`))
  else
    response
      .writeHead(200, { 'content-type': 'text/html' })
      .end(`<!doctype html><script type="importmap">${JSON.stringify({ imports })}</script>`)
})
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`

type Sample = { readonly firstMs: number; readonly eachMs: number }
const samples = new Map<string, Sample[]>(Object.keys(KINDS).map((name) => [name, []]))
const browser = await openBrowser()
try {
  for (let round = 0; round < rounds; round++)
    for (const [name, { run }] of Object.entries(KINDS)) {
      const { page, close } = await browser.open(url, { width: 1_000, height: 800 })
      samples.get(name)!.push((await page.evaluate(`(async () => { ${run} })()`)) as Sample)
      await close()
    }
} finally {
  await browser.close()
  server.close()
}
const median = (of: readonly number[]): number => of.toSorted((a, b) => a - b)[of.length >> 1]!
console.log('| | kB | kB by gzip | first drawing, ms | one more, ms |\n|---|---|---|---|---|')
for (const [name, { files }] of Object.entries(KINDS)) {
  const bodies = files.map((file) => readFileSync(file))
  const kilobytes = (of: readonly Buffer[]) =>
    (of.reduce((all, { length }) => all + length, 0) / 1_000).toFixed(1)
  const found = samples.get(name)!
  const fields = [
    kilobytes(bodies),
    kilobytes(bodies.map((body) => gzipSync(body))),
    median(found.map(({ firstMs }) => firstMs)).toFixed(2),
    median(found.map(({ eachMs }) => eachMs)).toFixed(3),
  ]
  console.log(`| ${name} | ${fields.join(' | ')} |`)
}
