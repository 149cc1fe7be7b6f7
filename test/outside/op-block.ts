/** OP blocks as a command: one case a line on stdin, one header a line on stdout (the protocol of the outside runner's --cmd). */
import { createInterface } from 'node:readline'
import {
  type AssembleCase,
  assembleBlock,
  type ExecuteCase,
  executePayload,
} from '../fixtures/op-replay.ts'
import { engineOption } from './engine-option.ts'

const engine = engineOption()

for await (const line of createInterface({ input: process.stdin })) {
  if (line === '') continue
  const one = JSON.parse(line) as (ExecuteCase | AssembleCase) & { readonly id: string }
  try {
    const answer = one.kind === 'execute' ? await executePayload(one, engine) : assembleBlock(one)
    console.log(JSON.stringify({ id: one.id, ...answer }))
  } catch (error) {
    console.log(JSON.stringify({ id: one.id, error: String((error as Error).stack) }))
  }
}
