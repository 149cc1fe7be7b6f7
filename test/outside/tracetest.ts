/** Tracer vectors as a command: one case a line on stdin, one trace a line on stdout (the protocol of the outside runner's --cmd). */
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
