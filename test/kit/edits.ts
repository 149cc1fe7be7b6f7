/**
 * A test build is the product with single passages of its source changed. A hook changes them while
 * the source is loaded, in every thread of a process. The product has no switches for tests. An
 * edit whose text does not occur exactly once stops the process, because an edit must not outlive a
 * refactoring. A process runs under edits when it is started with `editedExecArgv` and `editedEnv`;
 * its worker threads inherit both.
 */
import { registerHooks } from 'node:module'

/** An edit replaces one passage of a source file. */
export type Edit = {
  /** The path starts at the repository's root: `engine/views/lease.ts`. */
  readonly file: string
  /** This text occurs in the file exactly once. */
  readonly find: string
  readonly replace: string
}

const VARIABLE = 'TEST_BUILD_EDITS'
const ROOT = new URL('../../', import.meta.url).href

/** These arguments for node precede the script's name. */
export const editedExecArgv: readonly string[] = ['--import', import.meta.url]

/** Makes the environment of a process that runs under these edits. */
export function editedEnv(edits: readonly Edit[]): NodeJS.ProcessEnv {
  return { ...process.env, [VARIABLE]: JSON.stringify(edits) }
}

/**
 * Applies the edits of a file to its source.
 * @throws {Error} where an edit's text is missing or occurs more than once
 */
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
        // The process ends here, because the importer of the module may catch the error and run
        // without the edit. SIGKILL is not used, because some tests count kills.
        console.error((error as Error).message)
        process.kill(process.pid, 'SIGABRT')
        throw error
      }
    },
  })
}
