/**
 * A test build: the product with single places of its source changed while it is loaded, in every thread of a process. The product
 * itself has no switches; an edit whose text is not there exactly once stops the process, so that it cannot outlive a refactoring.
 *
 * A process runs under edits when it is started with `editedExecArgv` and `editedEnv`; its worker threads inherit both.
 */
import { registerHooks } from 'node:module'

/** One place of a source file. */
export type Edit = {
  /** From the repository's root: `engine/views/lease.ts`. */
  readonly file: string
  /** Text that stands in the file exactly once. */
  readonly find: string
  readonly replace: string
}

const VARIABLE = 'TEST_BUILD_EDITS'
const ROOT = new URL('../../', import.meta.url).href

/** Arguments for node before the script's name. */
export const editedExecArgv: readonly string[] = ['--import', import.meta.url]

/** Environment of a process that runs under these edits. */
export function editedEnv(edits: readonly Edit[]): NodeJS.ProcessEnv {
  return { ...process.env, [VARIABLE]: JSON.stringify(edits) }
}

/** The source after the edits of its file. @throws {Error} where an edit's text is missing or stands there more than once. */
export function applyEdits(file: string, source: string, edits: readonly Edit[]): string {
  let text = source
  for (const { find, replace } of edits.filter((edit) => edit.file === file)) {
    const count = text.split(find).length - 1
    if (count !== 1) throw new Error(`edit of ${file}: ${count} places instead of one: ${find}`)
    text = text.replace(find, () => replace)
  }
  return text
}

const json = process.env[VARIABLE]
if (json !== undefined) {
  const edits = JSON.parse(json) as readonly Edit[]
  const files = new Set(edits.map(({ file }) => file))
  registerHooks({
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context)
      const file = url.startsWith(ROOT) ? decodeURI(url.slice(ROOT.length)) : ''
      if (!files.has(file)) return loaded
      try {
        const source = applyEdits(file, String(loaded.source), edits)
        return { ...loaded, source }
      } catch (error) {
        // Whoever loads the module may catch what it throws; nothing may run without its edit. No SIGKILL: who counts kills counts those.
        console.error((error as Error).message)
        process.kill(process.pid, 'SIGABRT')
        throw error
      }
    },
  })
}
