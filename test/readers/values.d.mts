export declare const values: ReadonlyArray<string>
