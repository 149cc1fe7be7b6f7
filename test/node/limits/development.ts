/** These are limits for controls of a development chain. */

import { DEFAULT_LIMITS, type Limits } from '../../../rpc/core/limits.ts'
import { chainControls } from '../../../rpc/methods/development/controls.ts'
import { createControls } from '../../../workers/commands/dev/controls.ts'
import { createDeposits } from '../../../workers/commands/dev/deposits.ts'
import type { ToSequencer } from '../../../workers/thread/messages.ts'
import { testRpc } from '../../fixtures/rpc.ts'
import { row, type Some } from './row.ts'

/** Gives the response to the second of two controls, while the first waits. */
async function second(changed: Partial<Limits>) {
  const posted: number[] = []
  const post = (message: ToSequencer) => {
    if (message.type === 'control') posted.push(message.request)
  }
  const controls = createControls({ post }, { ...DEFAULT_LIMITS, ...changed })
  const requested = [controls.send({ type: 'gap' }), controls.send({ type: 'gap' })]
  for (const request of posted) controls.respond({ request, done: {} })
  const [, response] = await Promise.allSettled(requested)
  return response?.status === 'rejected' ? (response.reason as Error).message : 'done'
}

/** Gives the response to the second of two deposits, while the first waits. */
async function secondDeposit(changed: Partial<Limits>) {
  const posted: number[] = []
  const post = (message: ToSequencer) => {
    if (message.type === 'deposit') posted.push(message.deposit.request)
  }
  const deposits = createDeposits({ post }, 1_000, { ...DEFAULT_LIMITS, ...changed })
  const requested = [deposits.send(DEPOSIT), deposits.send(DEPOSIT)]
  for (const request of posted) deposits.respond({ request, hash: new Uint8Array(32) })
  const [, response] = await Promise.allSettled(requested)
  return response?.status === 'rejected' ? (response.reason as Error).message : 'in a block'
}
const DEPOSIT = {
  from: new Uint8Array(20),
  to: undefined,
  mint: 0n,
  value: 0n,
  gasLimit: 21_000n,
  input: new Uint8Array(0),
}

async function mined(limits: Partial<Limits>) {
  const methods = chainControls(
    async () => ({}),
    () => true,
  )
  const extra = new Map(methods.map((method) => [method.name, method]))
  const { error } = await testRpc({ limits, extra }).request('anvil_mine', [2])
  return error?.message ?? 'made'
}

export const DEVELOPMENT = {
  controlsWaiting: row(
    1,
    'server busy: too many control requests wait (--limit-controls-waiting)',
    second,
  ),
  depositsWaiting: row(
    1,
    'server busy: too many deposits wait (--limit-deposits-waiting)',
    secondDeposit,
  ),
  minedBlocks: row(1, 'params[0]: expected at most 1 blocks (--limit-mined-blocks), got 2', mined),
} satisfies Some
