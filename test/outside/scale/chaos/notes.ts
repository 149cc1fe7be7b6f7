/** What the clients of the test have met: faults with what is needed to find their reason, and requests that nobody answered. */
import { agent, post, type Said } from '../client.ts'

export type Lost = {
  readonly address: string
  readonly begun: number
  readonly ended: number
  readonly why: string
}
export type Happening = {
  readonly kind: string
  readonly node: string
  readonly from: number
  to: number
  /** Of a node that was killed: who stayed at it then. */
  readonly stuck?: ReadonlySet<string>
  /** When its process was gone, some time after the signal: until then its sockets are there. */
  gone?: number
}

export type Notes = ReturnType<typeof createNotes>

/** Offenders that are printed. */
const SHOWN = 4

export function createNotes() {
  const faults = new Map<string, string[]>()
  const counts = new Map<string, number>()
  const lost: Lost[] = []
  const happenings: Happening[] = []
  const started = performance.now()
  const seconds = (at: number) => `${((at - started) / 1_000).toFixed(1)} s`

  const isOfKilled = ({ address, begun, ended }: Lost): boolean =>
    happenings.some(
      ({ stuck, from, gone = from }) => stuck?.has(address) && begun <= gone && ended >= from,
    )

  return {
    lost,
    happenings,
    seconds,
    fault(kind: string, text: string): void {
      const list = faults.get(kind) ?? []
      list.push(`${seconds(performance.now())}: ${text}`)
      faults.set(kind, list)
    },
    faults: (kind: string): readonly string[] => faults.get(kind) ?? [],
    kinds: (): readonly string[] => [...faults.keys()],
    count(what: string, by = 1): void {
      counts.set(what, (counts.get(what) ?? 0) + by)
    },
    counted: (what: string): number => counts.get(what) ?? 0,
    /** For a line of the report: the first of them, with what happened shortly before each. */
    told(list: readonly string[]): string {
      return list
        .slice(0, SHOWN)
        .map((one) => `\n     ${one}`)
        .join('')
    },
    /** Requests that nobody answered but those on their way to one that was killed. */
    lostElsewhere: (): readonly string[] =>
      lost
        .filter((one) => !isOfKilled(one))
        .map(
          ({ address, begun, ended, why }) =>
            `${address} asked at ${seconds(begun)}, ended at ${seconds(ended)}: ${why}`,
        ),
    lostWithKilled: (): number => lost.filter(isOfKilled).length,
    /** How many are over. */
    ended: (): number => happenings.filter(({ to }) => Number.isFinite(to)).length,
    /** Something of these kinds is going on at that time, or has ended so shortly before. */
    during: (at: number, kinds: readonly string[], afterMs: number): boolean =>
      happenings.some(
        (one) => kinds.includes(one.kind) && one.from <= at && at <= one.to + afterMs,
      ),
    timeline: (): string =>
      happenings
        .map(({ kind, node, from, to }) => `${kind} ${node} ${seconds(from)}–${seconds(to)}`)
        .join(', '),
  }
}

/** One request; undefined where nobody has answered, which is noted. */
export async function ask(
  notes: Notes,
  { url, body, from, headers = {} }: Asked,
): Promise<Said | undefined> {
  const begun = performance.now()
  notes.count('requests')
  try {
    const said = await post(url, body, from, headers)
    if (said.status < 500) return said
    notes.lost.push({ address: from, begun, ended: performance.now(), why: `${said.status}` })
  } catch (error) {
    const { message } = error as Error
    notes.lost.push({ address: from, begun, ended: performance.now(), why: message })
  }
  return undefined
}
export type Asked = {
  readonly url: string
  readonly body: string
  readonly from: string
  readonly headers?: Readonly<Record<string, string>>
}

export const endConnections = (): void => agent.destroy()
export const pause = (ms: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, ms))
