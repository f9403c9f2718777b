// Package route is the language that says what Tally adds up.
//
// A Route says which documents make which totals, and where the roll-up goes that holds them.
// Routes with one Template make one roll-up. The template says whether the roll-ups are Tally's own
// documents or the app's, and whether events keep them or a schedule does. All source documents are
// called shards, even if they are the likes of a post. A counter is everything that goes into one
// roll-up.
//
// A Total is what an Aggregate makes of a field's values, or how many documents there are. Its
// Conditions say which documents it takes. The path of a document says to which counter it belongs.
// If the route has a field By, the text in that field says so instead. Then the document is in a
// group, and moves to another group when the field changes. Routes of one pattern put a document
// into several counters. A route that goes Across parents has documents of many collections.
//
//	orders/1  {shop: "a", status: "paid", amount: 5}  ┐  orders/{order} by shop -> shops/{shop} :
//	orders/2  {shop: "a", status: "new",  amount: 7}  ┤    count() as orders,
//	orders/3  {shop: "b", status: "paid", amount: 9}  ┘    sum(amount) where status == "paid" as revenue : existing
//	                │
//	                ▼
//	shops/a   {orders: 2, revenue: 5}
//	shops/b   {orders: 1, revenue: 9}
//
// A route's totals are answered by Queries. Totals with the same field and the same conditions
// share one. Maximum, Minimum, Latest and Earliest have queries of their own. Firestore needs
// Indexes for them.
//
// Parse reads routes in four steps: a lexer makes tokens of the text, a parser makes nodes of
// a route's tokens, the nodes are checked and become a Route, and all routes are checked together.
// It refuses routes by which the functions could trigger themselves without end, or mix up totals.
//
// The parser, read.go, is the grammar. The checks are the rules: judge.go and where.go of one
// route, conflict.go and levels.go of all. A [Mistake] that they find has a kind, its values and a
// place. The sentence for each kind, and what to write instead, is in package
// internal/tool/mistakes, which the functions do not link.
package route
