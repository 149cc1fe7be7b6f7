/**
 * What load may not do to a node: calls that never end or end their worker, clients that do not read or do not stay, transactions that
 * take seconds, blocks full of logs. Usage: node test/outside/overload.ts [--short] [--seed S] [--seconds N] [--only PART,…]
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { checks } from './checks.ts'
import { allocFlags } from './overload/contracts.ts'
import { overloadByLogs } from './overload/log-blocks.ts'
import { overloadByTransactions } from './overload/long-transactions.ts'
import { overloadByPassingClients } from './overload/passing-clients.ts'
import { overloadBySlowReaders } from './overload/slow-readers.ts'
import { overloadWorkers } from './overload/workers.ts'
import { runOptions } from './run-options.ts'

const { random, seconds, own } = runOptions(
  'overload',
  { full: 600, short: 80 },
  { only: { type: 'string' } },
)
const { check, close } = checks('overload')
const directory = mkdtempSync(join(tmpdir(), 'flashnode-overload-'))
process.once('exit', () => rmSync(directory, { recursive: true, force: true }))
const flags = allocFlags(directory)

// Something over a minute is the same for every length.
const share = Math.max(0, seconds - 70)
const parts: Readonly<Record<string, () => Promise<void>>> = {
  workers: () => overloadWorkers(check, { rounds: 1 + Math.round(share / 80), random, flags }),
  readers: () => overloadBySlowReaders(check, { random, flags }),
  clients: () =>
    overloadByPassingClients(check, {
      rounds: 5 + Math.round(share / 40),
      clients: 1_000,
      random,
      flags,
    }),
  transactions: () => overloadByTransactions(check, { seconds: 8 + Math.round(share / 4), flags }),
  logs: () => overloadByLogs(check, { blocks: 2 + Math.round(share / 60), random, flags }),
}
const wanted = typeof own['only'] === 'string' ? own['only'].split(',') : Object.keys(parts)
for (const name of wanted) {
  const part = parts[name]
  if (part === undefined) throw new Error(`--only: there are ${Object.keys(parts).join(', ')}`)
  const startedAt = performance.now()
  console.log(`# ${name}`)
  await part()
  console.log(`# ${name}: ${Math.round((performance.now() - startedAt) / 1_000)} s`)
}
close()
