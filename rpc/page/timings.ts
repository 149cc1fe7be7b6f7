/** Distributions of times, and outcomes of promises. */
import { count, ms, percent, short } from './format.ts'
import { type Bar, bars, mean, quantile, since } from './histogram.ts'
import type { Counts, Histogram, PageStats } from './messages.ts'
import { html, type View } from './view.ts'

export type Span = 'minute' | 'start'
type Props = {
  readonly stats: PageStats
  /** Stats from the start of the last minute; undefined when the page is younger. */
  readonly before: PageStats | undefined
  readonly span: Span
  readonly onSpan: (span: Span) => void
}

export function timings({ stats, before, span, onSpan }: Props): View {
  const earlier = span === 'minute' ? before : undefined
  const of = (name: 'publish' | 'execute' | 'shown' | 'sealed') =>
    since(stats[name], earlier?.[name])
  return html`
    <section class="panel timings" aria-labelledby="timings-title">
      <header>
        <h2 id="timings-title">Latency</h2>
        ${spanChoice(span, onSpan)}
      </header>
      ${distribution('Frame to readable', of('publish'), 'flashblocks')}
      ${distribution('Of that, execution', of('execute'), 'flashblocks')}
      ${distribution('Send to receipt', of('shown'), 'transactions')}
      ${distribution('Receipt to sealed block', of('sealed'), 'transactions')}
    </section>
  `
}

export const spanChoice = (span: Span, onSpan: (span: Span) => void): View => html`
  <div class="choice" role="group" aria-label="Period">
    ${(['minute', 'start'] as const).map(
      (one) => html`
        <button type="button" class="quiet" aria-pressed=${span === one} onClick=${() => onSpan(one)}>
          ${one === 'minute' ? 'Last minute' : 'Since the start'}
        </button>
      `,
    )}
  </div>
`

function distribution(title: string, histogram: Histogram, what: string): View {
  const [p50, p99] = [quantile(histogram, 0.5), quantile(histogram, 0.99)]
  const displayed = used(bars(histogram))
  const max = Math.max(1, ...displayed.map((bar) => bar.count))
  const text = (value: number | undefined) =>
    value === Number.POSITIVE_INFINITY
      ? `over ${ms(1_000 * (histogram.bounds.at(-1) ?? 0))}`
      : ms(value)
  return html`
    <figure class="distribution">
      <figcaption>
        <h3>${title}</h3>
        <span class="note">${short(histogram.count)} ${what}</span>
      </figcaption>
      <dl class="quantiles">
        <div><dt>p50</dt><dd>${text(p50)}</dd></div>
        <div><dt>p99</dt><dd>${text(p99)}</dd></div>
        <div><dt>mean</dt><dd>${ms(mean(histogram))}</dd></div>
      </dl>
      <ol class="bars" aria-label=${`${title}, by time`}>
        ${displayed.map(
          (bar) => html`
            <li key=${bar.from} title=${`${nameOf(bar)}: ${count(bar.count)}`}>
              <i style=${{ height: `${Math.max(bar.count > 0 ? 4 : 0, (100 * bar.count) / max)}%` }}></i>
              <span>${bar.to === undefined ? '∞' : bar.to < 1_000 ? bar.to : `${bar.to / 1_000} s`}</span>
              <span class="spoken">${nameOf(bar)}: ${count(bar.count)}</span>
            </li>
          `,
        )}
      </ol>
    </figure>
  `
}

const nameOf = ({ from, to }: Bar): string =>
  to === undefined ? `above ${ms(from)}` : `${ms(from)} to ${ms(to)}`

const FEWEST_BARS = 8
/** Returns the bars up to the last used one, so that these get more space. */
function used(all: readonly Bar[]): readonly Bar[] {
  const last = all.findLastIndex((bar) => bar.count > 0)
  return all.slice(0, Math.max(last + 2, Math.min(FEWEST_BARS, all.length)))
}

const OUTCOMES = ['kept', 'reordered', 'dropped', 'unseen', 'open'] as const
const MEANINGS: Readonly<Record<(typeof OUTCOMES)[number], string>> = {
  kept: 'sealed at the promised index',
  reordered: 'sealed at another index of the block',
  dropped: 'missing in the sealed block',
  unseen: 'this node never had a block of that height',
  open: 'the block is not sealed yet',
}

/** Outcomes over restarts, from the ledger. */
export function promises({ promises: made }: PageStats): View {
  const all = made['promises'] ?? 0
  const decided = (made['kept'] ?? 0) + (made['reordered'] ?? 0) + (made['dropped'] ?? 0)
  const of = (name: string, from: Counts = made) => from[name] ?? 0
  return html`
    <section class="panel promises" aria-labelledby="promises-title">
      <header>
        <h2 id="promises-title">Promises</h2>
        <span class="note">of ${short(of('flashblocks'))} flashblocks</span>
      </header>
      <p class="lead">
        <strong>${decided === 0 ? '–' : percent(of('kept') / decided)}</strong> kept${' '}
        <span class="note">of ${count(all)} preconfirmed transactions</span>
      </p>
      <div class="stack" aria-hidden="true">
        ${OUTCOMES.map((outcome) =>
          all === 0 || of(outcome) === 0
            ? null
            : html`<i class=${outcome} style=${{ flexGrow: String(Math.max(of(outcome) / all, 0.004)) }}></i>`,
        )}
      </div>
      <dl class="fates">
        ${OUTCOMES.map(
          (outcome) => html`
            <div title=${MEANINGS[outcome]}>
              <dt><i class=${`key ${outcome}`}></i>${outcome}</dt>
              <dd>${count(of(outcome))}</dd>
            </div>
          `,
        )}
        <div title="heights with more than one payload"><dt>second payloads</dt><dd>${count(of('second_payloads'))}</dd></div>
        <div title="flashblocks of which two different versions arrived"><dt>equivocations</dt><dd>${count(of('equivocations'))}</dd></div>
      </dl>
    </section>
  `
}
