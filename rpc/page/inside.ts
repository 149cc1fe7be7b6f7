/** Panels of the admin port: requests, queue classes, memory, refusals, upstreams and feeds. */
import { bytes, count, ms, rate, spaced, words } from './format.ts'
import { mean, quantile, since } from './histogram.ts'
import type { Counts, Histogram, Inside, PageStats } from './messages.ts'
import { html, type View } from './view.ts'

type Props = {
  readonly stats: PageStats
  /** Stats from the start of the period for rates; undefined means the node's start. */
  readonly before: PageStats | undefined
}
/** Current stats, and those from the start of the period. */
type Both = { readonly now: Inside; readonly earlier: Inside | undefined; readonly seconds: number }

function bothOf({ stats, before }: Props): Both | undefined {
  const { inside } = stats
  if (inside === undefined) return undefined
  const seconds = before === undefined ? 0 : (stats.at - before.at) / 1_000
  return { now: inside, earlier: before?.inside, seconds }
}

export function inside(props: Props): View {
  const both = bothOf(props)
  if (both === undefined) return null
  return html`
    ${requests(both)} ${queueClasses(both)} ${memory(both)} ${refusals(both)} ${sources(both)}
  `
}

const per = (amount: number, seconds: number): string =>
  seconds > 0 ? rate(amount / seconds) : '–'

function table(
  headings: readonly string[],
  rows: readonly (readonly (string | number)[])[],
  none: string,
): View {
  if (rows.length === 0) return html`<p class="none">${none}</p>`
  return html`
    <div class="scroll" tabindex="0" role="group" aria-label=${headings.join(', ')}>
      <table>
        <thead><tr>${headings.map((heading) => html`<th scope="col">${heading}</th>`)}</tr></thead>
        <tbody>
          ${rows.map(
            ([first, ...others]) => html`
              <tr key=${first}>
                <th scope="row">${first}</th>
                ${others.map((other) => html`<td>${other}</td>`)}
              </tr>
            `,
          )}
        </tbody>
      </table>
    </div>
  `
}

function requests({ now, earlier, seconds }: Both): View {
  const rows = Object.entries(now.calls)
    .map(([method, histogram]) => {
      const recent = since(histogram, earlier?.calls[method])
      const failed = (now.errors[method] ?? 0) - (earlier?.errors[method] ?? 0)
      return { method, recent, histogram, failed }
    })
    .sort((a, b) => b.recent.count - a.recent.count || b.histogram.count - a.histogram.count)
    .slice(0, MAX_METHODS)
    .map(({ method, recent, histogram, failed }) => [
      method,
      per(recent.count, seconds),
      ...times(recent.count > 0 ? recent : histogram),
      count(failed),
      count(histogram.count),
    ])
  const codes = Object.entries(now.codes)
  return html`
    <section class="panel requests" aria-labelledby="requests-title">
      <header><h2 id="requests-title">Requests</h2></header>
      ${table(['Method', 'per s', 'p50', 'p99', 'errors', 'total'], rows, 'No request yet.')}
      ${
        codes.length === 0
          ? null
          : html`<p class="note">Errors by code since the start: ${codes.map(([code, number]) => `${code} × ${count(number)}`).join(', ')}</p>`
      }
    </section>
  `
}
const MAX_METHODS = 14

function times(histogram: Histogram): readonly [string, string] {
  const text = (share: number) => {
    const value = quantile(histogram, share)
    return value === Number.POSITIVE_INFINITY ? 'over 10 s' : ms(value)
  }
  return [text(0.5), text(0.99)]
}

function queueClasses({ now, earlier, seconds }: Both): View {
  const { threads } = now
  const rows = Object.entries(now.queued).map(([queueClass, waiting]) => {
    const ran = since(now.ranFor[queueClass] ?? NONE, earlier?.ranFor[queueClass])
    const queued = since(now.queuedFor[queueClass] ?? NONE, earlier?.queuedFor[queueClass])
    const [, waited] = times(queued)
    return [queueClass, waiting, per(ran.count, seconds), waited, ms(mean(ran)), times(ran)[1]]
  })
  return html`
    <section class="panel lanes" aria-labelledby="lanes-title">
      <header>
        <h2 id="lanes-title">Queue classes</h2>
        <span class="note">${threads['busy'] ?? 0} of ${threads['all'] ?? 0} workers busy</span>
      </header>
      ${table(['Class', 'wait now', 'run per s', 'wait p99', 'run mean', 'run p99'], rows, '')}
      <p class="note">Since the start, ${count(threads['terminated'] ?? 0)} workers were terminated and ${count(threads['replaced'] ?? 0)} were replaced.</p>
    </section>
  `
}
const NONE: Histogram = { bounds: [], counts: [], count: 0, sum: 0 }

function memory({ now, earlier, seconds }: Both): View {
  const cpu =
    earlier === undefined || seconds <= 0
      ? undefined
      : (now.cpuSeconds - earlier.cpuSeconds) / seconds
  const heaps = Object.entries(now.heaps).map(([thread, size]) => [words(thread), bytes(size)])
  return html`
    <section class="panel memory" aria-labelledby="memory-title">
      <header>
        <h2 id="memory-title">Memory</h2>
        <span class="note">${cpu === undefined ? '' : `${(100 * cpu).toFixed(0)} % of a processor`}</span>
      </header>
      <p class="lead"><strong>${bytes(now.residentBytes)}</strong> <span class="note">resident</span></p>
      ${table(['Thread', 'heap and buffers'], heaps, '')}
    </section>
  `
}

/** The front's counters that show a reached limit. */
const BOUNDS: readonly (readonly [from: 'front' | 'holds' | 'feed', name: string])[] = [
  ['front', 'socketsRefused'],
  ['front', 'socketsEvicted'],
  ['front', 'socketsLate'],
  ['front', 'socketsCutOff'],
  ['front', 'unsentCut'],
  ['front', 'subscribersSlow'],
  ['feed', 'lagging'],
  ['feed', 'refused'],
  ['feed', 'gaps'],
  ['holds', 'expired'],
  ['holds', 'latestExpired'],
  ['holds', 'placeExpired'],
]

/** Errors that show a reached limit. */
const REFUSALS = {
  limited: 'calls over a limit or for a full queue',
  timeout: 'calls that timed out',
}

function refusals({ now, earlier }: Both): View {
  const bounds = BOUNDS.flatMap(([from, name]): Counted[] => {
    const value = now[from][name]
    if (value === undefined) return []
    const label = from === 'front' ? spaced(name) : `${from}: ${spaced(name)}`
    return [[label, value, earlier?.[from][name]]]
  })
  const limited: Counted = ['points over the rate limit', now.refusedPoints, earlier?.refusedPoints]
  const refused = Object.entries(now.boundCodes).map(([name, code]): Counted => {
    const label = `${REFUSALS[name as keyof typeof REFUSALS]} (${code})`
    return [label, now.codes[code] ?? 0, earlier && (earlier.codes[code] ?? 0)]
  })
  const known = [limited, ...refused, ...bounds]
  return html`
    <section class="panel limits" aria-labelledby="limits-title">
      <header>
        <h2 id="limits-title">Limits hit</h2>
        <span class="note">of ${known.length} counted limits</span>
      </header>
      ${counted('Limit', known, 'None since the start.')}
      <h3>Incidents</h3>
      ${counted('Incident', named(now.mishaps, earlier?.mishaps), 'Nothing since the start.')}
    </section>
    <section class="panel events" aria-labelledby="events-title">
      <header><h2 id="events-title">Feed and chain</h2></header>
      ${counted('Event', named(now.events, earlier?.events), 'Nothing yet.')}
    </section>
    <section class="panel open" aria-labelledby="open-title">
      <header><h2 id="open-title">Connections and caches</h2></header>
      ${table(
        ['What', 'number'],
        Object.entries(now.front)
          .filter(([name]) => NOW.has(name))
          .map(([name, value]) => [spaced(name), count(value)]),
        '',
      )}
    </section>
  `
}
const NOW: ReadonlySet<string> = new Set([
  ...['inFlight', 'webSockets', 'filters', 'subscriptions', 'limiterKeys', 'pageViewers'],
  ...['unsent', 'unsentBytes', 'cacheHits', 'cacheMisses'],
])

/** A counter: its name, current value, and value at the start of the period. */
type Counted = readonly [name: string, value: number, earlier: number | undefined]

const named = (now: Counts, earlier: Counts | undefined): readonly Counted[] =>
  Object.entries(now)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => [words(name), value, earlier && (earlier[name] ?? 0)])

/** Table of the counters above zero. */
const counted = (heading: string, all: readonly Counted[], none: string): View =>
  table(
    [heading, 'since the start', 'recently'],
    all
      .filter(([, value]) => value > 0)
      .map(([name, value, earlier]) => [
        name,
        count(value),
        earlier === undefined ? '–' : count(Math.max(0, value - earlier)),
      ]),
    none,
  )

/** Upstreams and feeds, with everything that the node reports of each. */
function sources({ now: { upstreams, feeds } }: Both): View {
  if (upstreams.length === 0 && feeds.length === 0) return null
  return html`
    <section class="panel sources" aria-labelledby="sources-title">
      <header><h2 id="sources-title">Upstreams and feeds</h2></header>
      ${upstreams.length === 0 ? null : html`<h3>Upstreams</h3>${described(upstreams)}`}
      ${feeds.length === 0 ? null : html`<h3>Feeds</h3>${described(feeds)}`}
    </section>
  `
}

function described(all: readonly Readonly<Record<string, unknown>>[]): View {
  const names = [...new Set(all.flatMap((one) => Object.keys(one)))]
  const ordered = ['name', ...names.filter((name) => name !== 'name')]
  return table(
    ordered.map(spaced),
    all.map((one) => ordered.map((name) => textOf(one[name]))),
    '',
  )
}

function textOf(value: unknown): string {
  if (value === undefined || value === null) return '–'
  if (typeof value === 'number') return count(Math.round(value))
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  return typeof value === 'string' ? value : JSON.stringify(value)
}
