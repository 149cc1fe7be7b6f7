/**
 * This command reads one tracer vector from each line of stdin, and writes one trace for each to
 * stdout. The outside runner's --cmd has this protocol.
 */
import { createInterface } from 'node:readline'
import { runTraceCase, type TraceCase } from '../fixtures/trace-case.ts'
import { engineOption } from './engine-option.ts'

const engine = engineOption()

for await (const line of createInterface({ input: process.stdin })) {
  if (line === '') continue
  const test = JSON.parse(line) as TraceCase
  try {
    console.log(JSON.stringify({ id: test.id, result: await runTraceCase(test, engine) }))
  } catch (error) {
    console.log(JSON.stringify({ id: test.id, error: String((error as Error).stack) }))
  }
}
