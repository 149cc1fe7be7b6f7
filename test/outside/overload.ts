/**
 * This check proves what load may not do to a node. The load has calls that never end or end their
 * worker. It has clients that do not read or do not stay. It also has transactions that take
 * seconds, blocks full of logs, hostile programs, and one address beside others.
 * Usage: node test/outside/overload.ts [--short] [--seed S] [--seconds N] [--only PART,…]
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

// Something over a minute of the run has a fixed length.
const share = Math.max(0, seconds - 80)
const parts: Readonly<Record<string, (check: Check) => Promise<void>>> = {
  workers: (report) =>
    overloadWorkers(report, { rounds: 1 + Math.round(share / 150), random, flags }),
  programs: (report) =>
    overloadByPrograms(report, {
      rounds: 1 + Math.round(share / 300),
      terminations: isShort ? 5 : 100,
      random,
      flags,
    }),
  transactions: (report) =>
    overloadByTransactions(report, { seconds: 8 + Math.round(share / 4), flags }),
  readers: (report) => overloadBySlowReaders(report, { random, flags }),
  clients: (report) =>
    overloadByPassingClients(report, {
      rounds: 5 + Math.round(share / 40),
      clients: 1_000,
      random,
      flags,
    }),
  shares: (report) =>
    overloadByShares(report, { seconds: (isShort ? 7 : 9) + Math.round(share / 20), flags }),
  logs: (report) => overloadByLogs(report, { blocks: 2 + Math.round(share / 60), random, flags }),
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

// The short form runs two parts at a time, because each mostly waits.
if (typeof own['only'] === 'string') await run(own['only'].split(','))
else if (isShort) {
  await Promise.all([
    run(['workers', 'transactions']),
    run(['readers', 'clients', 'logs', 'programs']),
  ])
  // This part measures shares of the processor, so it runs alone.
  await run(['shares'])
} else await run(Object.keys(parts))
close()
