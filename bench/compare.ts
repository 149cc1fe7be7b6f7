/**
 * Compares servers under the same requests, A B A B. It counts responses a second, and a second of
 * the server's processor time.
 */
import { load as requestEach } from '../workers/commands/bench/load.ts'
import type { Server } from './servers.ts'

export type Request = { readonly method: string; readonly params: readonly unknown[] }
export type Load = {
  readonly rounds: number
  readonly seconds: number
  readonly connections: number
}
type Sample = { readonly rate: number; readonly perCpu: number; readonly errors: number }

export function columnsOf(servers: readonly Server[]): string[] {
  return ['/s', '/CPU-s'].flatMap((unit) => [
    ...servers.map(({ name }) => `${name} ${unit}`),
    ...(servers.length > 1 ? ['ratio'] : []),
  ])
}

/**
 * Measures the servers in turns and returns medians with the number of errors.
 * @param requestsOf requests for a server; they differ if the chains have different numbers
 */
export async function compare(
  servers: readonly Server[],
  requestsOf: (server: Server) => readonly Request[],
  load: Load,
): Promise<{ readonly fields: readonly string[]; readonly errors: number }> {
  const samples = servers.map((): Sample[] => [])
  for (let round = 0; round < load.rounds; round++)
    for (const [at, server] of servers.entries())
      samples[at]!.push(await measure(server, requestsOf(server), load))
  const median = (of: readonly Sample[], key: keyof Sample) =>
    of.map((sample) => sample[key]).toSorted((a, b) => a - b)[load.rounds >> 1]!
  const fields = (['rate', 'perCpu'] as const).flatMap((key) => {
    const each = samples.map((of) => median(of, key))
    const ratio = each.length > 1 ? [(each[0]! / each[1]!).toFixed(2)] : []
    return [...each.map((value) => value.toPrecision(3)), ...ratio]
  })
  return { fields, errors: samples.flat().reduce((sum, { errors }) => sum + errors, 0) }
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
  let requested = 0
  const loaded = await requestEach({
    url: server.url,
    connections,
    next: () =>
      performance.now() > until ? undefined : { body: bodies[requested++ % bodies.length]! },
  })
  return {
    rate: loaded.responses / loaded.seconds,
    perCpu: loaded.responses / (server.cpuSeconds() - cpu),
    errors: loaded.failed,
  }
}
