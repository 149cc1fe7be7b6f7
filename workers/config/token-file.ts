/** A file with one secret in it. */
import { readFileSync } from 'node:fs'
import { isApiKey } from '../../rpc/seam/api-keys.ts'

/** Space around it is no part of it. No problem has anything of it in it. */
export function readToken(path: string): { readonly token: string } | { readonly problem: string } {
  try {
    const token = readFileSync(path, 'utf8').trim()
    return isApiKey(token)
      ? { token }
      : { problem: `token ${path}: expected 16 to 128 letters, digits, - and _` }
  } catch (error) {
    return { problem: `token ${path}: ${(error as Error).message.replaceAll('\n', ' ')}` }
  }
}

/** What is wrong with it; empty: nothing, or there is none. */
export function tokenProblems(path: string | undefined): readonly string[] {
  const read = path === undefined ? undefined : readToken(path)
  return read !== undefined && 'problem' in read ? [read.problem] : []
}
