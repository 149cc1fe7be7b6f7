/** A thread that strips the types of the status page's modules, answers once, and ends. */
import { stripTypeScriptTypes } from 'node:module'
import { parentPort, workerData } from 'node:worker_threads'

export type PageText = readonly [name: string, text: string]

const texts = workerData as readonly PageText[]
parentPort?.postMessage(
  texts.map(([name, text]) => [name, name.endsWith('.ts') ? stripTypeScriptTypes(text) : text]),
)
