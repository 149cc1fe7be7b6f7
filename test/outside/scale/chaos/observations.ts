/**
 * The clients' observations: faults with the data to find their reason, and requests without a
 * response.
 */
import { agent, post, type Said } from '../client.ts'

export type Lost = {
  readonly address: string
  readonly started: number
  readonly ended: number
  readonly why: string
}
export type Happening = {
  readonly kind: string
  readonly node: string
  readonly from: number
  to: number
  /** For a killed node, the addresses that stayed at it then. */
  readonly stuck?: ReadonlySet<string>
  /** The end of its process, some time after the signal; until then its sockets exist. */
  gone?: number
}

export type Observations = ReturnType<typeof createObservations>

/** This many entries are printed. */
const PRINTED = 4

export function createObservations() {
  const faults = new Map<string, string[]>()
  const counts = new Map<string, number>()
  const lost: Lost[] = []
  const happenings: Happening[] = []
  const started = performance.now()
  const seconds = (at: number) => `${((at - started) / 1_000).toFixed(1)} s`

  const isOfKilled = ({ address, started, ended }: Lost): boolean =>
    happenings.some(
      ({ stuck, from, gone = from }) => stuck?.has(address) && started <= gone && ended >= from,
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
    /** Formats the first entries for a line of the report, with the events shortly before each. */
    listed(list: readonly string[]): string {
      return list
        .slice(0, PRINTED)
        .map((one) => `\n     ${one}`)
        .join('')
    },
    /** Lists lost requests, except those on their way to a killed node. */
    lostElsewhere: (): readonly string[] =>
      lost
        .filter((one) => !isOfKilled(one))
        .map(
          ({ address, started, ended, why }) =>
            `${address} asked at ${seconds(started)}, ended at ${seconds(ended)}: ${why}`,
        ),
    lostWithKilled: (): number => lost.filter(isOfKilled).length,
    /** Counts the events that have ended. */
    ended: (): number => happenings.filter(({ to }) => Number.isFinite(to)).length,
    /**
     * Whether an event of these kinds happens at this time, or has ended at most `afterMs` before.
     */
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

/** Sends one request; undefined means no response, which is recorded. */
export async function request(
  observations: Observations,
  { url, body, from, headers = {} }: HttpPost,
): Promise<Said | undefined> {
  const started = performance.now()
  observations.count('requests')
  try {
    const said = await post(url, body, from, headers)
    if (said.status < 500) return said
    observations.lost.push({
      address: from,
      started,
      ended: performance.now(),
      why: `${said.status}`,
    })
  } catch (error) {
    const { message } = error as Error
    observations.lost.push({ address: from, started, ended: performance.now(), why: message })
  }
  return undefined
}
export type HttpPost = {
  readonly url: string
  readonly body: string
  readonly from: string
  readonly headers?: Readonly<Record<string, string>>
}

export const endConnections = (): void => agent.destroy()
export const pause = (ms: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, ms))
