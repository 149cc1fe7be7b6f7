/**
 * What load may not do to a node: calls that never end or end their worker, clients that do not read or do not stay, transactions that
 * take seconds, blocks full of logs, hostile programs, calls of one address beside those of others. Usage: node test/outside/overload.ts [--short] [--seed S] [--seconds N] [--only PART,…]
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Check, checks } from '../kit/checks.ts'
import { runOptions } from '../kit/run-options.ts'
import { allocFlags } from './overload/contracts.ts'
import { overloadByLogs } from './overload/log-blocks.ts'
import { overloadByTransactions } from './overload/long-transactions.ts'
import { overloadByPassingClients } from './overload/passing-clients.ts'
import { overloadByPrograms } from './overload/programs.ts'
import { overloadByShares } from './overload/shares.ts'
import { overloadBySlowReaders } from './overload/slow-readers.ts'
import { overloadWorkers } from './overload/workers.ts'

const { random, seconds, isShort, own } = runOptions(
  'overload',
  { full: 600, short: 80 },
  { only: { type: 'string' } },
)
const { check, close } = checks('overload')
const directory = mkdtempSync(join(tmpdir(), 'flashnode-overload-'))
process.once('exit', () => rmSync(directory, { recursive: true, force: true }))
const flags = allocFlags(directory)

// Something over a minute is the same for every length.
const share = Math.max(0, seconds - 80)
const parts: Readonly<Record<string, (check: Check) => Promise<void>>> = {
  workers: (tell) => overloadWorkers(tell, { rounds: 1 + Math.round(share / 150), random, flags }),
  programs: (tell) =>
    overloadByPrograms(tell, {
      rounds: 1 + Math.round(share / 300),
      terminations: isShort ? 5 : 100,
      random,
      flags,
    }),
  transactions: (tell) =>
    overloadByTransactions(tell, { seconds: 8 + Math.round(share / 4), flags }),
  readers: (tell) => overloadBySlowReaders(tell, { random, flags }),
  clients: (tell) =>
    overloadByPassingClients(tell, {
      rounds: 5 + Math.round(share / 40),
      clients: 1_000,
      random,
      flags,
    }),
  shares: (tell) =>
    overloadByShares(tell, { seconds: (isShort ? 7 : 9) + Math.round(share / 20), flags }),
  logs: (tell) => overloadByLogs(tell, { blocks: 2 + Math.round(share / 60), random, flags }),
}

async function run(names: readonly string[]): Promise<void> {
  for (const name of names) {
    const part = parts[name]
    if (part === undefined) throw new Error(`--only: there are ${Object.keys(parts).join(', ')}`)
    const startedAt = performance.now()
    await part((what, isRight, detail) => check(`${name}: ${what}`, isRight, detail))
    console.log(`     ${name} took ${Math.round((performance.now() - startedAt) / 1_000)} s`)
  }
}

// In the short form two at a time, for much of each is waiting.
if (typeof own['only'] === 'string') await run(own['only'].split(','))
else if (isShort) {
  await Promise.all([
    run(['workers', 'transactions']),
    run(['readers', 'clients', 'logs', 'programs']),
  ])
  // What it measures is what others leave.
  await run(['shares'])
} else await run(Object.keys(parts))
close()
