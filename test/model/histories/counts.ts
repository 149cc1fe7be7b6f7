/** Counts how often each kind of event happened. */
export class Counts {
  readonly of = new Map<string, number>()

  add(what: string, by = 1): void {
    this.of.set(what, (this.of.get(what) ?? 0) + by)
  }
  get(what: string): number {
    return this.of.get(what) ?? 0
  }
  list(what: readonly string[]): string {
    return what.map((each) => `${this.get(each)} ${each}`).join(', ')
  }
  addAll(other: Readonly<Record<string, number>>): void {
    for (const [what, by] of Object.entries(other)) this.add(what, by)
  }
}
