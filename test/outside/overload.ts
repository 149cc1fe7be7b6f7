/**
 * What load may not do to a node: calls that never end or end their worker, clients that do not read, transactions that take seconds.
 * Usage: node test/outside/overload.ts [--short] [--seed S] [--seconds N]
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { checks } from './checks.ts'
import { allocFlags } from './overload/contracts.ts'
import { overloadByTransactions } from './overload/long-transactions.ts'
import { overloadBySlowReaders } from './overload/slow-readers.ts'
import { overloadWorkers } from './overload/workers.ts'
import { runOptions } from './run-options.ts'

const { random, seconds } = runOptions('overload', { full: 600, short: 80 })
const { check, close } = checks('overload')
const directory = mkdtempSync(join(tmpdir(), 'flashnode-overload-'))
process.once('exit', () => rmSync(directory, { recursive: true, force: true }))
const flags = allocFlags(directory)

// Half a minute is the same for every length.
const share = Math.max(0, seconds - 30)
await overloadWorkers(check, { rounds: Math.max(1, Math.round(share / 50)), random, flags })
await overloadBySlowReaders(check, { random, flags })
await overloadByTransactions(check, { seconds: Math.max(8, Math.round(share / 4)), flags })

close()
