/** A row of the table: its requests and its servers. */
import type { Server } from '../servers.ts'

export type Question = { readonly method: string; readonly params: readonly unknown[] }
export type Row = {
  readonly name: string
  /** Maximum number of connections; expensive requests would otherwise wait in a queue. */
  readonly connections: number
  /** Target ratio of responses per CPU-second to anvil's. */
  readonly aim?: number
  /** The row has no values for a peer that lacks the method or this form of it. */
  readonly isPeerOptional?: true
  /**
   * Makes a request.
   * @param at number of earlier requests to the server; a row without repeated responses makes each
   * request unique
   */
  question(at: number): Question | readonly Question[]
  /** Part of the response on which both servers have to agree; all of it by default. */
  gist?(result: unknown): unknown
  /**
   * Number of requests in a round, instead of a duration, for requests that have to be made
   * beforehand.
   */
  readonly amount?: number
  /** Waits until the sent work is done. Its processor time counts, its duration does not. */
  settle?(server: Server, requested: number): Promise<void>
}
export type Group = {
  readonly rows: readonly Row[]
  /** Number of holders of the first token. */
  readonly holders: number
  /** flashnode gets many holders by transactions. */
  readonly isFilled?: true
  /**
   * A block each second. For rows without transactions anvil makes none, because it hashes and
   * copies its whole state for each. With 100,000 holders one block takes more than a second.
   */
  readonly hasBlocks: boolean
  /** anvil records each step of its transactions; its struct logs are empty otherwise. */
  readonly hasSteps?: true
  prepare?(servers: readonly Server[]): Promise<void>
}

export const REPEATED = 'repeated'
export const NEVER_THE_SAME = 'never the same'
type Kind = Omit<Row, 'question'> & { readonly request: Row['question'] }

/**
 * Makes two rows: one request repeated, which a cache may answer, and requests that are never the
 * same.
 */
export const twice = ({ request, ...kind }: Kind): readonly Row[] => [
  { ...withoutAim(kind), name: `${kind.name}, ${REPEATED}`, question: () => request(0) },
  { ...kind, name: `${kind.name}, ${NEVER_THE_SAME}`, question: request },
]
// Targets apply to computed responses only.
const withoutAim = ({ aim: _, ...kind }: Omit<Kind, 'request'>): Omit<Kind, 'request'> => kind

export const bodyOf = (question: Question | readonly Question[]): string =>
  'method' in question ? JSON.stringify(callOf(question, 1)) : JSON.stringify(question.map(callOf))
const callOf = ({ method, params }: Question, id: number) => ({
  jsonrpc: '2.0',
  id,
  method,
  params,
})
