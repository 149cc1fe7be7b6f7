/**
 * Each program tries to occupy a thread of one engine with a deadline of 100 ms. It must end within
 * 10 ms of the deadline, or within one step of an undivided precompiled contract. The session must
 * then run the next message. The minimum of three tries counts, because the clock of processor time
 * has steps of 4 ms. The wall clock is no better, because another process may have had the core.
 * Usage: npm run hostile-programs -- [--engine fast|fast:precise|fast:stream|reference] [--only
 * TEXT]
 */
import { parseArgs } from 'node:util'
import type { Outcome } from '../../engine/evm/engine.ts'
import { address, BLOCK, message, word, world } from '../fixtures/world.ts'
import { assemble } from '../kit/assemble.ts'
import { checks } from '../kit/checks.ts'
import { engineNamed } from './engine-option.ts'
import { RULES } from './fuzz/rules.ts'
import { type HostileProgram, hostilePrograms } from './programs/hostile-programs.ts'

const { values } = parseArgs({
  options: {
    engine: { type: 'string', default: 'reference' },
    only: { type: 'string', default: '' },
  },
})
const DEADLINE_MS = 100
const TRIES = 3
const GAS = 10n ** 11n
const engine = engineNamed(values.engine)
/** The reference engine reads the clock every 1,024 steps, some of which are calls. */
const OVERSHOOT_MS = engine.name === 'reference' ? 50 : 10
const { check, skip, close } = checks(`hostile-programs, ${values.engine}`)

for (const program of hostilePrograms())
  if (program.name.includes(values.only)) {
    if (program.isLongStep === true && engine.name === 'reference')
      skip(program.name, 'one step of the reference engine takes longer')
    else await judge(program)
  }
close()

async function judge({ name, code, input }: HostileProgram): Promise<void> {
  const hex = Buffer.from(code).toString('hex')
  const responding = Buffer.from(assemble('42 0 MSTORE 32 0 RETURN')).toString('hex')
  const session = engine.openSession(
    world({ 1: { balance: 10n ** 20n }, 2: { code: hex, balance: 5n }, 3: { code: responding } }),
    BLOCK,
    RULES.get('prague')!.evm,
  )
  session.startTransaction()
  const sent = message({ gas: GAS, ...(input === undefined ? {} : { input }) })
  // The first runs include the compilation of the engine and its code.
  for (let times = 0; times < 2; times++) await deadlineRun(10)
  let { outcome, elapsedMs } = await deadlineRun(DEADLINE_MS)
  for (let tries = 1; tries < TRIES && elapsedMs > DEADLINE_MS + OVERSHOOT_MS; tries++)
    ({ outcome, elapsedMs } = await deadlineRun(DEADLINE_MS))
  const next = await session.run(message({ to: address(3), gas: 1_000_000n }))
  session.close()
  const isOver = elapsedMs <= DEADLINE_MS + OVERSHOOT_MS
  check(name, isOver && responds(next), `${kindOf(outcome)} after ${elapsedMs.toFixed(1)} ms`)

  async function deadlineRun(ms: number) {
    const before = session.checkpoint()
    const started = performance.now()
    const outcome: Outcome = await session.run(sent, {
      isExpired: () => performance.now() - started >= ms,
      memoryBytes: 32 * 2 ** 20,
    })
    const elapsedMs = performance.now() - started
    session.revert(before)
    return { outcome, elapsedMs }
  }
}

function kindOf(outcome: Outcome): string {
  return outcome.status === 'stopped' ? `stopped: ${outcome.why}` : outcome.status
}
function responds(outcome: Outcome): boolean {
  return outcome.status === 'success' && Buffer.compare(outcome.output, word(42n)) === 0
}
