/** Top of the page: the node, its status, and its heads. */
import type { Link } from './connection.ts'
import { count, gas, ms, rate } from './format.ts'
import type { Hello, PageStats } from './messages.ts'
import type { Page, Row } from './store.ts'
import { html, type View } from './view.ts'

const MODES: Readonly<Record<Hello['mode'], string>> = {
  dev: 'makes the blocks of its own development chain',
  stored: 'serves a data directory; no new blocks arrive',
  whole: 'follows a chain with full state, and recomputes state roots',
  proven:
    'follows a chain with lazy state, and verifies fetched state against the upstream’s headers',
  trusted: 'follows a chain with lazy state, and trusts the upstream for fetched state',
}

export function top({ hello, stats }: Page, link: Link): View {
  return html`
    <header class="top">
      <h1><i class="logo" aria-hidden="true"></i>flashnode</h1>
      ${
        hello === undefined
          ? null
          : html`
              <p class="chain"><strong>${hello.chainName}</strong> <span class="note">chain ${hello.chainId}</span></p>
              <p class="badge" title=${MODES[hello.mode]}>${hello.mode}</p>
            `
      }
      ${health(stats, link)}
      ${hello === undefined ? null : html`<p class="note version">${hello.version}${hello.isInside ? ' · admin' : ''}</p>`}
    </header>
  `
}

function health(stats: PageStats | undefined, link: Link): View {
  const words: Readonly<Record<Link, string>> = {
    connecting: 'connecting',
    open: stats?.status ?? 'connecting',
    lost: 'connection lost, trying again',
    full: 'too many open status pages, trying again',
  }
  const state = link === 'open' ? (stats?.status ?? 'connecting') : 'lost'
  const reasons = link === 'open' ? (stats?.reasons ?? []) : []
  return html`
    <div class=${`health ${state}`} role="status">
      <i aria-hidden="true"></i><span>${words[link]}</span>
      ${reasons.length === 0 ? null : html`<ul>${reasons.map((reason) => html`<li>${reason}</li>`)}</ul>`}
    </div>
  `
}

export function tiles({ stats, rows, hello }: Page): View {
  if (stats === undefined || hello === undefined) return null
  const { heads, waiting, ageMs } = stats
  const { perSecond, gasPerSecond } = lately(rows)
  const head = (name: string) => (heads[name] === undefined ? '–' : count(heads[name]))
  const lagOf = (name: string) =>
    heads[name] === undefined ? '' : `${count((heads['pending'] ?? 0) - heads[name])} behind`
  return html`
    <section class="tiles" aria-label="Head">
      ${tile('Pending', html`${head('pending')}<small>:${heads['index'] ?? 0}</small>`, `${ms(ageMs)} ago`)}
      ${tile('Latest', head('latest'), lagOf('latest'))}
      ${tile('Canonical', head('canonical'), lagOf('canonical'))}
      ${tile('Final', head('finalized'), `safe ${head('safe')}`)}
      ${tile('Load', html`${rate(perSecond)}<small> tx/s</small>`, `${gas(gasPerSecond)}/s`)}
      ${tile('Txpool', count(waiting['pending'] ?? 0), `${count(waiting['queued'] ?? 0)} queued`)}
    </section>
  `
}

const tile = (name: string, value: View, more: string): View => html`
  <div class="tile">
    <h2>${name}</h2>
    <p>${value}</p>
    <p class="note">${more}</p>
  </div>
`

/** Rates over the visible blocks with known times. */
function lately(rows: readonly Row[]): {
  readonly perSecond: number
  readonly gasPerSecond: number
} {
  const known = rows.filter((row) => row.startedAt !== undefined).slice(1)
  const [newest, oldest] = [known[0], known.at(-1)]
  if (newest === undefined || oldest === undefined || newest === oldest)
    return { perSecond: 0, gasPerSecond: 0 }
  const counted = known.slice(0, -1)
  const seconds = Math.max(0.001, (newest.startedAt! - oldest.startedAt!) / 1_000)
  const transactions = counted.reduce(
    (all, { tiles }) =>
      all + tiles.reduce((sum, { isReplaced, transactions: of }) => sum + (isReplaced ? 0 : of), 0),
    0,
  )
  const used = counted.reduce((all, { gasUsed }) => all + gasUsed, 0)
  return { perSecond: transactions / seconds, gasPerSecond: used / seconds }
}
