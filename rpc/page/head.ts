/** The top of the page: whose node this is, how it is, and where its heads are. */
import type { Link } from './connection.ts'
import { count, gas, ms, rate } from './format.ts'
import type { Figures, Hello } from './messages.ts'
import type { Page, Row } from './store.ts'
import { html, type View } from './view.ts'

const MODES: Readonly<Record<Hello['mode'], string>> = {
  dev: 'makes its own chain',
  stored: 'answers from what is stored; no blocks come',
  whole: 'follows; all of the state is here, roots are recomputed',
  proven: 'follows; what it fetches is proven under the upstream’s headers',
  trusted: 'follows; what it fetches is as right as the upstream',
}

export function top({ hello, figures }: Page, link: Link): View {
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
      ${health(figures, link)}
      ${hello === undefined ? null : html`<p class="note version">${hello.version}${hello.isInside ? ' · admin' : ''}</p>`}
    </header>
  `
}

function health(figures: Figures | undefined, link: Link): View {
  const words: Readonly<Record<Link, string>> = {
    connecting: 'connecting',
    open: figures?.status ?? 'connecting',
    lost: 'connection lost, trying again',
    full: 'too many look at this page',
  }
  const state = link === 'open' ? (figures?.status ?? 'connecting') : 'lost'
  const reasons = link === 'open' ? (figures?.reasons ?? []) : []
  return html`
    <div class=${`health ${state}`} role="status">
      <i aria-hidden="true"></i><span>${words[link]}</span>
      ${reasons.length === 0 ? null : html`<ul>${reasons.map((reason) => html`<li>${reason}</li>`)}</ul>`}
    </div>
  `
}

export function tiles({ figures, rows, hello }: Page): View {
  if (figures === undefined || hello === undefined) return null
  const { heads, waiting, ageMs } = figures
  const { perSecond, gasPerSecond } = lately(rows)
  const head = (name: string) => (heads[name] === undefined ? '–' : count(heads[name]))
  const behind = (name: string) =>
    heads[name] === undefined ? '' : `${count((heads['pending'] ?? 0) - heads[name])} behind`
  return html`
    <section class="tiles" aria-label="Head">
      ${tile('Pending', html`${head('pending')}<small>:${heads['index'] ?? 0}</small>`, `${ms(ageMs)} ago`)}
      ${tile('Latest', head('latest'), behind('latest'))}
      ${tile('Canonical', head('canonical'), behind('canonical'))}
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

/** Of the blocks in sight whose time is known. */
function lately(rows: readonly Row[]): {
  readonly perSecond: number
  readonly gasPerSecond: number
} {
  const known = rows.filter((row) => row.begunAt !== undefined).slice(1)
  const [newest, oldest] = [known[0], known.at(-1)]
  if (newest === undefined || oldest === undefined || newest === oldest)
    return { perSecond: 0, gasPerSecond: 0 }
  const counted = known.slice(0, -1)
  const seconds = Math.max(0.001, (newest.begunAt! - oldest.begunAt!) / 1_000)
  const transactions = counted.reduce(
    (all, { cells }) =>
      all + cells.reduce((sum, { isReplaced, transactions: of }) => sum + (isReplaced ? 0 : of), 0),
    0,
  )
  const used = counted.reduce((all, { gasUsed }) => all + gasUsed, 0)
  return { perSecond: transactions / seconds, gasPerSecond: used / seconds }
}
