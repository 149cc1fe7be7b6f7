#!/usr/bin/env node
/** The command line: prints, or runs a node until it is told to stop. */
import { enableCompileCache } from 'node:module'
import { fileURLToPath } from 'node:url'
import { ConfigError, type Invocation, readInvocation } from './config.ts'

// Half of a cold start is compiling, most of it in threads: those take the directory from the environment.
process.env['NODE_COMPILE_CACHE'] ??= fileURLToPath(
  new URL('../node_modules/.cache/compile', import.meta.url),
)
enableCompileCache(process.env['NODE_COMPILE_CACHE'])
const invocation = invoke()
if (invocation?.action === 'print') process.stdout.write(invocation.text)
else if (invocation?.action === 'run') {
  // Loaded late: asking for help or a version opens no database code.
  const { runNode } = await import('./node.ts')
  await runNode(invocation.config)
} else if (invocation?.action === 'migrate') {
  const { runMigration } = await import('./migration.ts')
  process.exitCode = await runMigration(invocation.datadir)
}

function invoke(): Invocation | undefined {
  try {
    return readInvocation(process.argv.slice(2), process.env)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    process.stderr.write(`flashnode: ${error.message}\n`)
    process.exitCode = 2
    return undefined
  }
}
