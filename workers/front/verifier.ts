/**
 * `--verify-sample`: runs a sample of the answered calls again on the other engine, after the
 * response. The sample includes responses that are reused at a later snapshot. A sample of the
 * canonical blocks is verified too, one block at a time. Differences are written to files of the
 * data directory. A block that differs halts the chain.
 */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  type Executor,
  OWN_CLIENT,
  type PoolCall,
  type PoolReply,
  resultText,
} from '../../rpc/core/executor.ts'
import { timeoutMsOf } from '../../rpc/core/queue-class.ts'
import {
  type CallWithOutcome,
  VERIFIED,
  VERIFY_CALL,
  type Verdict,
} from '../../rpc/methods/shared/verify.ts'
import { type BlockVerdict, VERIFY_BLOCK } from '../../rpc/methods/shared/verify-block.ts'
import type { VerifiedCounts } from '../observe/gauges.ts'
import type { Report } from '../observe/reporter.ts'
import type { PoolCaller } from '../pool/call-pool.ts'

export type VerifierOptions = PoolCaller & {
  /** 0 to 1. */
  readonly share: number
  /** 0 to 1, exclusive of 1. */
  readonly random: () => number
  readonly report: Report
  /** Writes a mismatch to a file; undefined when there was none to write. */
  readonly save: (mismatch: object) => string | undefined
  /** Halts the writer, because a block differs and no further block on it may become visible. */
  readonly haltWriter: (reason: string) => void
}
export type Verifier = Executor & {
  /** Reports that a block has become canonical. */
  readonly block: (number: number) => void
  /** Counts since the start. */
  readonly counts: () => VerifiedCounts
}

/** Wraps `executor` and verifies a sample of its calls. */
export function createVerifier(options: VerifierOptions): Verifier {
  const { executor, share, random } = options
  let isBusy = false
  let verified = 0
  let verifiedBlocks = 0
  let mismatches = 0

  async function verify(call: PoolCall, response: FinalReply): Promise<void> {
    const verdict = await request(options, call, response)
    if (verdict === undefined || verdict.verdict === 'unknown') return
    verified++
    if (verdict.verdict === 'same') return
    mismatches++
    const { method, params, answer: reply } = callOf(call, response)
    const { verdict: _, ...other } = verdict
    const file = options.save({ method, params, endpoint: call.endpoint, answer: reply, other })
    options.report('engines_differ', { method, file, reason: file ?? 'no file is written' })
  }
  async function verifyBlock(number: number): Promise<void> {
    const verdict = await requestBlock(options, number)
    if (verdict === undefined || verdict.verdict === 'unknown') return
    verifiedBlocks++
    if (verdict.verdict === 'same') return
    mismatches++
    const file = options.save({ block: number, ...verdict })
    const { what, engine } = verdict
    const reason = `block ${number} has a different ${what} on the ${engine} engine`
    options.report('engines_differ', { number, file, reason })
    options.haltWriter(`${reason}${file === undefined ? '' : `, see ${file}`}`)
  }
  function alone(work: () => Promise<void>): void {
    isBusy = true
    void work().finally(() => {
      isBusy = false
    })
  }
  return {
    async execute(call) {
      const reply = await executor.execute(call)
      if (isBusy || !VERIFIED.has(call.method.name) || random() >= share) return reply
      if (isFinalReply(reply)) alone(() => verify(call, reply))
      return reply
    },
    carried(call, reply) {
      if (isBusy || random() >= share) return
      const now = { ...reply, snapshot: call.snapshot }
      if (isFinalReply(now)) alone(() => verify(call, now))
    },
    block(number) {
      if (!isBusy && random() < share) alone(() => verifyBlock(number))
    },
    counts: () => ({ verified, verifiedBlocks, mismatches }),
  }
}

type FinalReply = Exclude<PoolReply, { readonly pieces: unknown } | { readonly stale: true }>

const isFinalReply = (reply: PoolReply): reply is FinalReply =>
  ('result' in reply || 'error' in reply) && reply.snapshot !== undefined

function callOf(call: PoolCall, response: FinalReply): CallWithOutcome {
  const params: readonly unknown[] = JSON.parse(call.text)
  const { snapshot: _, pending: __, reads: ___, ...reply } = response
  return { method: call.method.name, params, answer: reply }
}

/** Verifies a call; undefined when the snapshot is gone or the pool has no capacity. */
async function request(
  { executor, limits, now }: PoolCaller,
  call: PoolCall,
  response: FinalReply,
): Promise<Verdict | undefined> {
  const params = [callOf(call, response)]
  const reply = await executor.execute({
    method: VERIFY_CALL,
    params,
    text: JSON.stringify(params),
    endpoint: call.endpoint,
    snapshot: response.snapshot,
    deadline: now() + timeoutMsOf(VERIFY_CALL.runs, limits),
    client: OWN_CLIENT,
  })
  return 'result' in reply ? JSON.parse(reply.result) : undefined
}

/** Verifies a block; undefined when the pool has no capacity. */
async function requestBlock(
  { executor, limits, now }: PoolCaller,
  number: number,
): Promise<BlockVerdict | undefined> {
  const reply = await executor.execute({
    method: VERIFY_BLOCK,
    params: [number],
    text: `[${number}]`,
    endpoint: 'standard',
    snapshot: undefined,
    deadline: now() + timeoutMsOf(VERIFY_BLOCK.runs, limits),
    client: OWN_CLIENT,
  })
  return 'error' in reply || 'stale' in reply ? undefined : JSON.parse(resultText(reply))
}

/** Maximum number of files: a few are enough, and a node with a difference has many. */
const MAX_FILES = 16

/**
 * Writes to `directory/mismatches/1.json` and so on, at most MAX_FILES.
 * @param frontThread number of the thread, where there are several
 */
export function mismatchFiles(directory: string, frontThread?: number): VerifierOptions['save'] {
  const folder = join(directory, 'mismatches')
  return (mismatch) => {
    try {
      mkdirSync(folder, { recursive: true })
      const count = readdirSync(folder).length
      if (count >= MAX_FILES) return undefined
      const of = frontThread === undefined ? '' : `cell-${frontThread}-`
      const path = join(folder, `${of}${count + 1}.json`)
      writeFileSync(path, `${JSON.stringify(mismatch, undefined, 2)}\n`)
      return path
    } catch {
      // A failing disk is reported elsewhere.
      return undefined
    }
  }
}
