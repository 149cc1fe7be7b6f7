/** The status page: hears the node, and draws what it knows, at most so often. */
import { type BlocksProps, blocks, type Place } from './blocks.ts'
import { Chart } from './chart.ts'
import { type Call, type Link, openCalls, openLive } from './connection.ts'
import { Development } from './development.ts'
import { Flashblock } from './flashblock.ts'
import { tiles, top } from './head.ts'
import { inside } from './inside.ts'
import { applyAll, EMPTY, figuresAgo, oldestFigures, type Page, type Row } from './store.ts'
import { promises, type Span, timings } from './timings.ts'
import { html, render, useEffect, useState, type View } from './view.ts'
import { Way } from './way.ts'

/** Between two drawings: faster than anybody reads. */
const DRAW_MS = 80
/** What rates are for. */
const RATE_SECONDS = 10

type Shown = { readonly page: Page; readonly link: Link }
type Listener = (shown: Shown) => void

/** Gives a way to hear of each drawing; drawings come in animation frames, so that a page in the background draws nothing. */
function openStore(): (listener: Listener) => () => void {
  let shown: Shown = { page: EMPTY, link: 'connecting' }
  let isDue = false
  let drawnAt = 0
  const listeners = new Set<Listener>()
  const draw = (now: number) => {
    if (now - drawnAt < DRAW_MS) {
      requestAnimationFrame(draw)
      return
    }
    drawnAt = now
    isDue = false
    for (const listener of listeners) listener(shown)
  }
  const change = (next: Partial<Shown>) => {
    shown = { ...shown, ...next }
    if (isDue) return
    isDue = true
    requestAnimationFrame(draw)
  }
  openLive({
    messages: (messages) => change({ page: applyAll(shown.page, messages, Date.now()) }),
    link: (link) => change({ link }),
  })
  return (listener) => {
    listeners.add(listener)
    listener(shown)
    return () => listeners.delete(listener)
  }
}

type AppProps = { readonly listen: ReturnType<typeof openStore>; readonly call: Call }

function App({ listen, call }: AppProps): View {
  const [{ page, link }, setShown] = useState<Shown>({ page: EMPTY, link: 'connecting' })
  const [held, hold] = useState<readonly Row[] | undefined>(undefined)
  const [place, setPlace] = useState<Place | undefined>(undefined)
  const [wanted, setWanted] = useState<{ readonly hash: string } | undefined>(undefined)
  const [span, setSpan] = useState<Span>('minute')
  useEffect(() => listen(setShown), [])
  const { hello, figures } = page
  const onFollow = (hash: string) => setWanted({ hash })
  const shownRows: BlocksProps = {
    rows: held ?? page.rows,
    blockMs: hello?.blockMs ?? 1_000,
    canonical: figures?.heads['canonical'] ?? 0,
    selected: place,
    onSelect: setPlace,
    isHeld: held !== undefined,
    onHold: () => hold(held === undefined ? page.rows : undefined),
  }
  return html`
    ${top(page, link)}
    <main id="main" class=${link === 'open' ? '' : 'stale'}>
      ${tiles(page)}
      <div class="columns">
        <div class="wide">
          ${blocks(shownRows)}
          ${place === undefined ? null : html`<${Flashblock} key=${`${place.number}:${place.index}:${place.payloadId}`} place=${place} rows=${shownRows.rows} call=${call} onFollow=${onFollow} onClose=${() => setPlace(undefined)} />`}
          ${figures === undefined ? null : timings({ figures, before: oldestFigures(page), span, onSpan: setSpan })}
          ${load(page)}
        </div>
        <div class="narrow">
          <${Way} call=${call} wanted=${wanted} onFollow=${onFollow} />
          ${hello?.hasControls === true ? html`<${Development} call=${call} pending=${figures?.heads['canonical'] ?? 0} onFollow=${onFollow} />` : null}
          ${figures === undefined ? null : promises(figures)}
        </div>
      </div>
      ${figures?.inside === undefined ? null : insidePart(page)}
    </main>
  `
}

const load = ({ load: { at, transactions, mgas } }: Page): View =>
  at.length < 2
    ? null
    : html`
        <section class="panel" aria-labelledby="load-title">
          <header><h2 id="load-title">Load by block</h2></header>
          <${Chart}
            title="Transactions and gas"
            at=${at}
            unit=""
            rightUnit="M"
            lines=${[
              { name: 'transactions', values: transactions, color: 'accent', isFilled: true },
              { name: 'Mgas', values: mgas, color: 'second', isRight: true },
            ]}
          />
        </section>
      `

function insidePart(page: Page): View {
  const { series, figures } = page
  return html`
    <h2 class="part">Inside</h2>
    <div class="inside">
      ${
        series.at.length < 2
          ? null
          : html`
              <section class="panel" aria-label="Requests and memory over time">
                <${Chart}
                  title="Requests"
                  at=${series.at}
                  unit="/s"
                  lines=${[
                    { name: 'answered', values: series.requests, color: 'accent', isFilled: true },
                    { name: 'errors', values: series.errors, color: 'bad' },
                  ]}
                />
                <${Chart}
                  title="Process"
                  at=${series.at}
                  unit="MB"
                  rightUnit="%"
                  lines=${[
                    { name: 'resident', values: series.residentMb, color: 'second' },
                    { name: 'processor', values: series.cpu, color: 'accent', isRight: true },
                  ]}
                />
              </section>
            `
      }
      ${inside({ figures: figures!, before: figuresAgo(page, RATE_SECONDS) ?? oldestFigures(page) })}
    </div>
  `
}

const root = document.getElementById('page')
if (root !== null) render(html`<${App} listen=${openStore()} call=${openCalls()} />` as never, root)
