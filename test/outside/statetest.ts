/**
 * This command reads one state test from each line of stdin, and writes one result for each to
 * stdout. The outside runner's --cmd has this protocol.
 */
import { createInterface } from 'node:readline'
import { runStateCase, type StateCase } from '../fixtures/state-case.ts'
import { enginesOption } from './engine-option.ts'

const engines = enginesOption()

for await (const line of createInterface({ input: process.stdin })) {
  if (line === '') continue
  const test = JSON.parse(line) as StateCase
  try {
    console.log(JSON.stringify({ id: test.id, ...(await runStateCase(test, engines)) }))
  } catch (error) {
    console.log(JSON.stringify({ id: test.id, error: `threw: ${(error as Error).stack}` }))
  }
}
