#!/usr/bin/env node
/** The command `flashnode` of the package: the node's own process takes this one's place, or is its child where Node cannot do that. */
import { spawn } from 'node:child_process'
import { lastWords } from '../observe/reporter.ts'
import { type Launch, launch, NodeMissingError } from './launch.ts'

/** What a person or a supervisor sends. */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

const found = find()
if (found !== undefined) begin(found)

function find(): Launch | undefined {
  try {
    return launch(process.argv.slice(2), process.env)
  } catch (error) {
    if (!(error instanceof NodeMissingError)) throw error
    lastWords(error.message)
    process.exitCode = 1
    return undefined
  }
}

function begin({ file, args, env }: Launch): void {
  // From 22.15 on: signals, standard streams and status need no hand then, and the memory of a second process is saved.
  if (process.execve !== undefined && process.platform !== 'win32')
    process.execve(file, [file, ...args], env)
  else beside({ file, args, env })
}

/** In a process group of its own: what a terminal sends to this one reaches it once, and not twice. */
function beside({ file, args, env }: Launch): void {
  const child = spawn(file, args, { stdio: 'inherit', env, detached: true })
  const pass = (signal: NodeJS.Signals) => void child.kill(signal)
  for (const signal of SIGNALS) process.on(signal, pass)
  child.once('error', (error) => {
    lastWords(`${file} cannot be started: ${error.message}`)
    process.exitCode = 1
  })
  child.once('exit', (code, signal) => {
    for (const one of SIGNALS) process.off(one, pass)
    if (signal === null) process.exitCode = code ?? 1
    else process.kill(process.pid, signal)
  })
}
