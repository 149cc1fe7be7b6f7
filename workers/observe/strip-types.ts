/** A thread that lives for one answer: the modules of the status page without their types. */
import { stripTypeScriptTypes } from 'node:module'
import { parentPort, workerData } from 'node:worker_threads'

/** Name and content. */
export type PageText = readonly [name: string, text: string]

const texts = workerData as readonly PageText[]
parentPort?.postMessage(
  texts.map(([name, text]) => [name, name.endsWith('.ts') ? stripTypeScriptTypes(text) : text]),
)
