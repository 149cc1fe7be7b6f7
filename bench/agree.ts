/**
 * Checks that both servers answer a sample of a row's requests alike, before the row is measured.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Server } from './servers.ts'
import { bodyOf, type Question, type Row } from './workloads/row.ts'

/**
 * Numbers far from the measured ones, so that their responses are in no cache. A row with one
 * repeated request uses that request.
 */
const SAMPLES = [9_000_000, 9_000_001, 9_012_345]

/**
 * @param options the first server is flashnode
 * @returns the servers to measure, without an optional peer that lacks this row
 * @throws {Error} if a response is an error or differs
 */
export async function agree(
  row: Row,
  options: { readonly servers: readonly Server[]; readonly isPeerOptional: boolean },
): Promise<readonly Server[]> {
  const [ours, peer] = options.servers as [Server, Server]
  // A transaction can be sent only once.
  if (row.amount !== undefined) return options.servers
  for (const at of SAMPLES) {
    const question = row.question(at)
    const mine = await responseOf(ours, question)
    if ('error' in mine) throw new Error(`${ours.name}: ${row.name}: ${mine.error}`)
    const theirs = await responseOf(peer, question)
    if ('error' in theirs) {
      if (options.isPeerOptional) return [ours]
      throw new Error(`${peer.name}: ${row.name}: ${theirs.error}`)
    }
    const gist = row.gist ?? ((result: unknown) => result)
    const both = [mine.result, theirs.result].map(gist)
    // The peer's response has another form.
    if (both[1] === undefined && options.isPeerOptional) return [ours]
    if (!isDeepStrictEqual(both[0], both[1])) throw new Error(difference(row, both))
  }
  return options.servers
}

const difference = ({ name }: Row, both: readonly unknown[]) =>
  `${name}: two answers\n${both.map((one) => `${JSON.stringify(one)}`.slice(0, 2_000)).join('\n')}`

type Reply = { readonly result?: unknown; readonly error?: { readonly message: string } }
async function responseOf(
  { url }: Server,
  question: Question | readonly Question[],
): Promise<{ readonly result: unknown } | { readonly error: string }> {
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(url, { method: 'POST', headers, body: bodyOf(question) })
  const reply = (await response.json()) as Reply | readonly (Reply & { readonly id: number })[]
  const replies = Array.isArray(reply) ? reply.toSorted((a, b) => a.id - b.id) : [reply as Reply]
  const error = replies.find((one) => one.error !== undefined)?.error
  if (error !== undefined) return { error: error.message }
  const results = replies.map(({ result }) => result)
  return { result: Array.isArray(reply) ? results : results[0] }
}
