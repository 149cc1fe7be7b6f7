#!/usr/bin/env node
/** The process: turns on the compile cache, then does what its command line asks for. */
import { enableCompileCache } from 'node:module'
import { fileURLToPath } from 'node:url'

// Half of a cold start is compiling, most of it in threads: those take the directory from the environment.
process.env['NODE_COMPILE_CACHE'] ??= fileURLToPath(
  new URL('../node_modules/.cache/compile', import.meta.url),
)
enableCompileCache(process.env['NODE_COMPILE_CACHE'])
// Not imported above: that would be compiled anew each time (2026-11, a version printed: 154 ms of processor instead of 92).
const { doCommandLine } = await import('./command-line.ts')
await doCommandLine(process.argv.slice(2), process.env)
