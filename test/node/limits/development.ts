/** Limits of what a development chain is told to do. */
import { chainControls } from '../../../rpc/methods/development/controls.ts'
import { DEFAULT_LIMITS, type Limits } from '../../../rpc/seam/limits.ts'
import { createControls } from '../../../workers/commands/dev/controls.ts'
import { createDeposits } from '../../../workers/commands/dev/deposits.ts'
import type { ToSequencer } from '../../../workers/thread/messages.ts'
import { testRpc } from '../../fixtures/rpc.ts'
import { row, type Some } from './row.ts'

/** What is said to the second of two controls, while the first waits. */
async function second(changed: Partial<Limits>) {
  const posted: number[] = []
  const post = (message: ToSequencer) => {
    if (message.type === 'control') posted.push(message.request)
  }
  const controls = createControls({ post }, { ...DEFAULT_LIMITS, ...changed })
  const asked = [controls.send({ type: 'gap' }), controls.send({ type: 'gap' })]
  for (const request of posted) controls.answer({ request, done: {} })
  const [, answer] = await Promise.allSettled(asked)
  return answer?.status === 'rejected' ? (answer.reason as Error).message : 'done'
}

/** What is said to the second of two deposits, while the first waits. */
async function secondDeposit(changed: Partial<Limits>) {
  const posted: number[] = []
  const post = (message: ToSequencer) => {
    if (message.type === 'deposit') posted.push(message.deposit.request)
  }
  const deposits = createDeposits({ post }, 1_000, { ...DEFAULT_LIMITS, ...changed })
  const asked = [deposits.send(DEPOSIT), deposits.send(DEPOSIT)]
  for (const request of posted) deposits.answer({ request, hash: new Uint8Array(32) })
  const [, answer] = await Promise.allSettled(asked)
  return answer?.status === 'rejected' ? (answer.reason as Error).message : 'in a block'
}
const DEPOSIT = {
  ...{ from: new Uint8Array(20), to: undefined, mint: 0n, value: 0n, gasLimit: 21_000n },
  input: new Uint8Array(0),
}

async function mined(limits: Partial<Limits>) {
  const methods = chainControls(
    async () => ({}),
    () => true,
  )
  const extra = new Map(methods.map((method) => [method.name, method]))
  const { error } = await testRpc({ limits, extra }).ask('anvil_mine', [2])
  return error?.message ?? 'made'
}

export const DEVELOPMENT = {
  controlsWaiting: row(1, 'server busy: too many controls wait (--limit-controls-waiting)', second),
  depositsWaiting: row(
    1,
    'server busy: too many deposits wait (--limit-deposits-waiting)',
    secondDeposit,
  ),
  minedBlocks: row(1, 'params[0]: at most 1 blocks at a time (--limit-mined-blocks)', mined),
} satisfies Some
