/** Two servers asked the same in turns, A B A B: answers in a second, and in a second of the server's processor time. */
import { load as askAll } from '../workers/commands/bench/load.ts'
import type { Server } from './servers.ts'

export type Request = { readonly method: string; readonly params: readonly unknown[] }
export type Load = {
  readonly rounds: number
  readonly seconds: number
  readonly connections: number
}
type Sample = { readonly rate: number; readonly perCpu: number; readonly errors: number }

/** Heads of the columns that `compare` gives. */
export function columnsOf(servers: readonly Server[]): string[] {
  return ['/s', '/CPU-s'].flatMap((unit) => [
    ...servers.map(({ name }) => `${name} ${unit}`),
    ...(servers.length > 1 ? ['ratio'] : []),
  ])
}

/** @param requestsOf asked in turns; not the same for both where their chains have other numbers @returns medians, and what went wrong */
export async function compare(
  servers: readonly Server[],
  requestsOf: (server: Server) => readonly Request[],
  load: Load,
): Promise<{ readonly cells: readonly string[]; readonly errors: number }> {
  const samples = servers.map((): Sample[] => [])
  for (let round = 0; round < load.rounds; round++)
    for (const [at, server] of servers.entries())
      samples[at]!.push(await measure(server, requestsOf(server), load))
  const median = (of: readonly Sample[], key: keyof Sample) =>
    of.map((sample) => sample[key]).toSorted((a, b) => a - b)[load.rounds >> 1]!
  const cells = (['rate', 'perCpu'] as const).flatMap((key) => {
    const each = samples.map((of) => median(of, key))
    const ratio = each.length > 1 ? [(each[0]! / each[1]!).toFixed(2)] : []
    return [...each.map((value) => value.toPrecision(3)), ...ratio]
  })
  return { cells, errors: samples.flat().reduce((sum, { errors }) => sum + errors, 0) }
}

async function measure(
  server: Server,
  requests: readonly Request[],
  { seconds, connections }: Load,
): Promise<Sample> {
  const bodies = requests.map(({ method, params }) =>
    JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  )
  const cpu = server.cpuSeconds()
  const until = performance.now() + seconds * 1_000
  let asked = 0
  const loaded = await askAll({
    url: server.url,
    connections,
    next: () =>
      performance.now() > until ? undefined : { body: bodies[asked++ % bodies.length]! },
  })
  return {
    rate: loaded.answers / loaded.seconds,
    perCpu: loaded.answers / (server.cpuSeconds() - cpu),
    errors: loaded.failed,
  }
}
