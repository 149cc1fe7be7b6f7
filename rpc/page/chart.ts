/** Line charts; only this module uses uPlot. */
import uPlot from 'uplot'
import { html, useEffect, useRef, type View } from './view.ts'

export type Line = {
  readonly name: string
  readonly values: readonly number[]
  /** Name of a colour in the style sheet. */
  readonly color: string
  readonly isFilled?: boolean
  /** The line uses the scale on the right. */
  readonly isRight?: boolean
}
type Props = {
  readonly title: string
  /** Seconds since 1970. */
  readonly at: readonly number[]
  readonly lines: readonly Line[]
  readonly unit: string
  readonly rightUnit?: string
}

/** Height in lines of text, like all sizes of the page. */
const HEIGHT = 9

export function Chart({ title, at, lines, unit, rightUnit }: Props): View {
  const box = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | undefined>(undefined)
  const data = (): uPlot.AlignedData => [[...at], ...lines.map(({ values }) => [...values])]
  useEffect(() => {
    const element = box.current
    if (element === null) return
    const draw = () => {
      plot.current?.destroy()
      const scale = { unit, rightUnit }
      plot.current = new uPlot(optionsOf(element, lines, scale), data(), element)
    }
    draw()
    const scheme = matchMedia('(prefers-color-scheme: dark)')
    scheme.addEventListener('change', draw)
    const watch = new ResizeObserver(() => plot.current?.setSize(sizeOf(element)))
    watch.observe(element)
    return () => {
      watch.disconnect()
      scheme.removeEventListener('change', draw)
      plot.current?.destroy()
      plot.current = undefined
    }
  }, [])
  useEffect(() => plot.current?.setData(data()), [at])
  const newest = lines.map(({ name, values }) => `${name} ${(values.at(-1) ?? 0).toFixed(1)}`)
  return html`
    <figure class="chart" role="img" aria-label=${`${title}: ${newest.join(', ')}`}>
      <figcaption>
        <h3>${title}</h3>
        <ul class="legend">
          ${lines.map(({ name, color }) => html`<li><i class=${`key ${color}`}></i>${name}</li>`)}
        </ul>
      </figcaption>
      <div class="plot" ref=${box}></div>
    </figure>
  `
}

/** A canvas cannot read CSS variables, so a probe element resolves the colours. */
function colorsOf(element: HTMLElement): (name: string) => string {
  const probe = document.createElement('i')
  element.append(probe)
  const names = ['faint', 'line', 'accent', 'second', 'bad']
  const colors = new Map(
    names.map((name) => {
      probe.style.color = `var(--${name})`
      return [name, getComputedStyle(probe).color]
    }),
  )
  probe.remove()
  return (name) => colors.get(name) ?? 'gray'
}

const textPixels = (): number =>
  Number.parseFloat(getComputedStyle(document.documentElement).fontSize)

const sizeOf = ({ clientWidth }: HTMLElement) => ({
  width: Math.max(100, clientWidth),
  height: HEIGHT * textPixels(),
})

function optionsOf(
  element: HTMLElement,
  lines: readonly Line[],
  { unit, rightUnit }: { readonly unit: string; readonly rightUnit: string | undefined },
): uPlot.Options {
  const color = colorsOf(element)
  const font = `${0.75 * textPixels()}px ${getComputedStyle(element).fontFamily}`
  const axis = {
    font,
    stroke: color('faint'),
    grid: { stroke: color('line'), width: 1 },
    ticks: { show: false },
  }
  const amounts = (of: string) => ({
    ...axis,
    size: 4 * textPixels(),
    values: (_plot: uPlot, values: number[]) => values.map((value) => `${value} ${of}`.trim()),
  })
  return {
    ...sizeOf(element),
    cursor: { show: false },
    legend: { show: false },
    padding: [8, rightUnit === undefined ? 8 : 0, 0, 0],
    scales: { y: { range: fromZero }, right: { range: fromZero } },
    axes: [
      { ...axis, size: 1.9 * textPixels(), space: 7 * textPixels(), values: timesOf },
      amounts(unit),
      ...(rightUnit === undefined
        ? []
        : [{ ...amounts(rightUnit), scale: 'right', side: 1, grid: { show: false } }]),
    ],
    series: [
      {},
      ...lines.map((line) => ({
        stroke: color(line.color),
        width: Math.max(1.5, textPixels() / 10),
        ...(line.isFilled === true ? { fill: faded(color(line.color)) } : {}),
        scale: line.isRight === true ? 'right' : 'y',
        points: { show: false },
      })),
    ],
  }
}

/** The colour is `rgb(…)`, or `color(…)` for a mixture. */
const faded = (color: string): string => color.replace(')', ' / 14%)').replaceAll(',', ' ')

const fromZero: uPlot.Range.Function = (_plot, _min, max) => [0, Math.max(1, 1.15 * (max ?? 1))]

const timesOf = (_plot: uPlot, values: number[]): string[] =>
  values.map((value) =>
    new Date(1_000 * value).toLocaleTimeString([], {
      hour: '2-digit',
      minute: '2-digit',
      second: '2-digit',
      hour12: false,
    }),
  )
