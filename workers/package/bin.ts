#!/usr/bin/env node
/**
 * The package's command `flashnode`: replaces its own process by the node's, or starts the node as
 * a child.
 */
import { spawn } from 'node:child_process'
import { lastWords } from '../observe/reporter.ts'
import { type Launch, launch, NodeMissingError } from './launch.ts'

/** Signals that a person or a supervisor sends. */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

const found = find()
if (found !== undefined) start(found)

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

function start({ file, args, env }: Launch): void {
  /*
   * Node 22.15 and later can replace the process. Signals, streams and status then need no
   * forwarding, and one process less uses memory.
   */
  if (process.execve !== undefined && process.platform !== 'win32')
    process.execve(file, [file, ...args], env)
  else beside({ file, args, env })
}

/** The child has a process group of its own, so a terminal's signals reach it only once. */
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
