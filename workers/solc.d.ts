/** The part of solc-js that is used; its own types say `any`. */
declare module 'solc' {
  const solc: {
    /** Standard JSON in, standard JSON out. */
    compile(input: string): string
  }
  export default solc
}
